"""nearfar up: the whole stack on this machine."""

from __future__ import annotations

import sys
from typing import Any

import click

from nearfar import background, checkout, console, showing, stack, wiring
from nearfar.edge import HOSTS, ServeOptions
from nearfar.errors import BadInput

HELP = """Build the edge component if its source changed, start a store, vLLM and the edge, and
watch them until ctrl-C. With --upstream, any OpenAI-compatible server takes vLLM's place.

Everything listens on 127.0.0.1. A part that dies stops the others, and its last lines are
shown; only the store's end leaves the rest running.

\b
Exit codes beside the common ones:
  3    a port is taken, a program is missing, or a part died

\b
Examples:
  nearfar up
  nearfar up --ask "Why is the sky blue?" --once
  nearfar up --upstream http://127.0.0.1:8000 --upstream-key KEY --model my-model
  nearfar up --json --detach
"""


@click.command("up", help=HELP)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", type=click.Choice(HOSTS), default="wasmtime", show_default=True)
@click.option("--upstream", help="Base address of an OpenAI-compatible server.")
@click.option(
    "--upstream-key", envvar="NEARFAR_UPSTREAM_KEY", help="Its key, or NEARFAR_UPSTREAM_KEY."
)
@click.option("--model", help="The name of its model; needed with --upstream.")
@click.option("--context-tokens", type=click.IntRange(0), default=0, help="Its context, if known.")
@click.option("--gate", is_flag=True, help="Put a gate in front of --upstream; vLLM has its own.")
@click.option("--redis", "store_url", envvar="NEARFAR_REDIS", help="Use this store: redis://...")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON when ready.")
@click.option("--detach", is_flag=True, help="Go on in the background; see status and down.")
@click.option("--ask", "question", help="When ready, ask this twice: a miss, then a hit.")
@click.option("--once", is_flag=True, help="With --ask: stop after the answers.")
@click.option("--verbose", is_flag=True, help="Show all that the parts log, not errors alone.")
@click.option("--max-instance-reuse-count", type=click.IntRange(1), hidden=True)
@click.option("--max-instance-concurrent-reuse-count", type=click.IntRange(1), hidden=True)
def command(as_json: bool, detach: bool, question: str | None, once: bool, **given: Any) -> None:
    options = _options(given)
    if once and not question:
        raise BadInput("--once needs --ask.", 'nearfar up --ask "..." --once')
    if detach and question:
        raise BadInput("--detach and --ask do not go together.", "nearfar up --detach, then chat.")
    here = checkout.here()
    if detach:
        showing.ready(background.start(here, click.get_current_context().params), as_json=as_json)
        console.say("./nearfar down stops it")
        return
    with stack.running(here, options) as running:
        showing.ready(running.state, as_json=as_json)
        if question:
            showing.ask_twice(running.state, question, as_json=as_json)
        if not once:
            if sys.stderr.isatty():
                console.say("press ctrl-C to stop")
            running.watch()


def serve_options(given: dict[str, Any]) -> ServeOptions:
    """Return where the edge listens, and its instances' limits where they were given."""
    names = ("max_instance_reuse_count", "max_instance_concurrent_reuse_count")
    limits = {name: given[name] for name in names if given[name] is not None}
    return ServeOptions(given["port"], **limits)


def _options(given: dict[str, Any]) -> stack.Options:
    if given["upstream"] is None:
        if given["gate"]:
            raise BadInput("--gate needs --upstream; vLLM has its gate anyway.", "leave it out.")
        if given["model"] or given["upstream_key"]:
            raise BadInput("--model and --upstream-key need --upstream.", "nearfar up --help")
        upstream = None
    else:
        upstream = wiring.upstream(
            given["upstream"], given["upstream_key"], given["model"], given["context_tokens"]
        )
    store_url = given["store_url"]
    if store_url and not store_url.startswith("redis://"):
        raise BadInput(
            "--redis is no address of a Redis.", "give one like redis://127.0.0.1:6379/0"
        )
    return stack.Options(
        serve_options(given),
        given["host"],
        upstream,
        store_url=store_url or None,
        gate=given["gate"],
        verbose=given["verbose"],
    )
