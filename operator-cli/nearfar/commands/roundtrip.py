"""nearfar roundtrip: the ways from here to the edge, and from the edge to the GPU."""

from __future__ import annotations

from typing import Any

import click

from nearfar import checkout, console, state
from nearfar.commands import target
from nearfar.errors import BadInput, Missing, NearfarError
from nearfar.interrupt import stop_on_signals
from nearfar.placement import vantage, ways, ways_table
from nearfar.placement.address import Address
from nearfar.placement.vantage import Vantage
from nearfar.placement.ways import Way

HELP = """Time the two distances that a placement turns on: from here to the edge, and from the edge
to the GPU. The second is timed by the edge itself, for a key with the permission "trace".

With --gpu and --container the other placements' ways are gone too, from here. --from adds what
other places see: it runs nearfar there over ssh, or reads what `roundtrip --json` printed there.
Nothing is added up that was not observed; ctrl-C keeps what was.

\b
Examples:
  nearfar roundtrip
  nearfar roundtrip --endpoint https://edge.example --api-key nf_... --gpu https://gpu.example
  nearfar roundtrip --endpoint https://edge.example --from tokyo=ssh://me@tokyo.example
  nearfar roundtrip --from tokyo=tokyo.json --json
"""


@click.command("roundtrip", help=HELP)
@target.stack_option
@click.option(
    "--endpoint",
    envvar="NEARFAR_ENDPOINT",
    help="Edge to ask, or NEARFAR_ENDPOINT. Default: the local stack.",
)
@click.option("--api-key", envvar="NEARFAR_API_KEY", help="API key, or NEARFAR_API_KEY.")
@click.option("--gpu", help="Address of the GPU's server as it is reached from here.")
@click.option("--container", help="Address of the path in a container, as reached from here.")
@click.option("--upstream", help="Only this upstream of the edge. Default: all.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--interval", "interval_s", type=click.FloatRange(0, 60), default=0.05,
              show_default=True, help="Seconds of rest between two trips.")  # fmt: skip
@click.option("--from", "others", multiple=True, metavar="NAME=WHERE",
              help="Another place: ssh://[user@]host, a file, or its address.")  # fmt: skip
@click.option("--remote-command", default="nearfar", show_default=True,
              help="How nearfar is called on machines that --from reaches over ssh.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print every trip as one line of JSON.")
def command(endpoint: str | None, api_key: str | None, as_json: bool, **given: Any) -> int:
    there = target.stack() if endpoint is None else None
    if there is not None:
        endpoint, api_key = there.endpoint, api_key or there.api_key
    elif endpoint is None:
        local = state.require(checkout.here())
        endpoint, api_key = local.endpoint, api_key or local.api_key
    places = [_place(other) for other in given["others"]]
    for name, where in places:
        _check_reachable(name, where, endpoint, given)
    seen, code = list[Vantage](), 0
    try:
        with stop_on_signals():
            _here(seen, endpoint, api_key or "", given)
            for name, where in places:
                console.say(f"from {name}")
                seen += _elsewhere(name, where, endpoint, api_key or "", given)
    except KeyboardInterrupt:
        console.say("interrupted; what was measured is kept")
        code = 130
    except NearfarError as problem:
        if not any(each.edge.trips for each in seen):
            raise
        # What was measured before is worth showing all the same.
        console.error(problem)
        code = problem.exit_code
    if as_json:
        console.result_json(vantage.document(seen))
    elif seen:
        console.result("\n".join(ways_table.lines(seen)))
    return code


def _here(seen: list[Vantage], endpoint: str, api_key: str, given: dict[str, Any]) -> None:
    """Go all ways from here; what was gone is in `seen` at every moment."""
    repeats, pause = given["repeats"], ways.resting(given["interval_s"])
    here = Vantage("here", Way(endpoint, "/healthz"))
    seen.append(here)
    console.say(f"to the edge, {repeats} times")
    ways.go(here.edge, repeats, pause)
    console.say("from the edge, by its own clock")
    here.edge_probe = ways.probe(endpoint, api_key, repeats, given["upstream"])
    if given["container"]:
        console.say(f"to the container, {repeats} times")
        here.container = Way(given["container"], "/healthz")
        _go(here.container, repeats, pause)
        here.container_probe = ways.probe(given["container"], api_key, repeats, given["upstream"])
    if given["gpu"]:
        console.say(f"to the GPU's server, {repeats} times")
        # Whether it lets us in does not matter: an answer of 401 came the same way.
        here.gpu = Way(given["gpu"], "/v1/models")
        _go(here.gpu, repeats, pause)


def _go(way: Way, repeats: int, pause: ways.Pause) -> None:
    """Go a way; where there is nobody at its end, the way says so too."""
    try:
        ways.go(way, repeats, pause)
    except Missing as problem:
        way.why_not = problem.message
        raise


def _place(other: str) -> tuple[str, str]:
    name, equals, where = other.partition("=")
    if not (name and equals and where):
        raise BadInput(f"--from {other!r} is not NAME=WHERE.", "--from tokyo=ssh://me@host")
    return name, where


def _check_reachable(name: str, where: str, endpoint: str, given: dict[str, Any]) -> None:
    """Refuse addresses that mean another machine over there."""
    for url in (endpoint, given["gpu"], given["container"]):
        if where.startswith("ssh://") and url and Address.of(url).is_of_this_machine:
            raise BadInput(
                f"{url} is this machine's own name for itself; {name} cannot reach it.",
                "give an address that both machines reach.",
            )


def _elsewhere(
    name: str, where: str, endpoint: str, api_key: str, given: dict[str, Any]
) -> list[Vantage]:
    arguments = ["--endpoint", endpoint, "--repeats", str(given["repeats"])]
    for option in ("gpu", "container", "upstream"):
        if given[option]:
            arguments += [f"--{option}", given[option]]
    text = vantage.elsewhere(name, where, api_key, arguments, given["remote_command"])
    return vantage.of_document(vantage.last_json(text, where), name, where)
