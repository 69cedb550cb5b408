"""nearfar bench: put a load on an edge, and say what its users got."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from nearfar import checkout, console, runs
from nearfar.commands import load_options, target
from nearfar.errors import BadInput, NearfarError
from nearfar.figures import summary, tables
from nearfar.load import session
from nearfar.load.plan import Naming
from nearfar.load.session import Session
from nearfar.load.watch import watching

HELP = """Put a load on the edge at URL (default: the local stack) and print what its users got.

An open loop (--rate, --trace) sends each request when it is due, whatever is in flight; a closed
loop (--concurrency) keeps so many in flight. What is asked comes from a file of prompts, from drawn
lengths (default: 128 tokens in, 32 out), or from a recorded trace. Everything that was measured is
written as it happens into one file of JSON lines (docs/runs.md), and --from makes the tables again
from it. Ctrl-C ends a load early and keeps what was measured.

\b
Latency is of good answers only; the error rate stands beside it. A percentile that the number of
samples does not carry is not printed. A chunk is not a token: tokens come from usage.

\b
Examples:
  nearfar bench --rate 2 --requests 200
  nearfar bench https://edge.example --api-key nf_... --concurrency 16 --duration 60
  nearfar bench --rate 5 --process burst --burst-size 10 --duration 120 --objective tpot=80
  nearfar bench --rate 1 --process ramp --ramp-to 20 --duration 300
  nearfar bench --concurrency 4 --requests 100 --prompts questions.jsonl --cache warm
  nearfar bench --trace recorded.jsonl --speed 2
  nearfar bench --from .nearfar/runs/RUN.jsonl --json
"""

_SECRET = ("--api-key", "--api-key-after")


@click.command("bench", help=HELP)
@click.argument("url", required=False)
@target.options
@load_options.options
@click.option("--label", help="What to call the run.")
@click.option("--placement", help="Where the halves stand, to compare placements by.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Default: a new file in .nearfar/runs."
)
@click.option(
    "--from", "source", type=click.Path(path_type=Path), help="Measure nothing; tables of a run."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON.")
def command(
    url: str | None,
    endpoint: str | None,
    api_key: str | None,
    model: str | None,
    label: str | None,
    placement: str | None,
    out: Path | None,
    source: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    if source is not None:
        return _tell(source, as_json=as_json)
    if (
        url
        and endpoint
        and click.get_current_context().get_parameter_source("endpoint")
        is click.core.ParameterSource.COMMANDLINE
    ):
        raise BadInput("The endpoint is given twice.", "give URL alone.")
    asked = load_options.read(given)
    at = target.find(url or endpoint, api_key, model)
    name = session.new_name()
    path = out or checkout.here().private / "runs" / f"{name}.jsonl"
    plan = asked.plan(at.model)
    with watching(plan) as watch:
        ended = session.run(
            Session(
                edge=at.edge,
                plan=plan,
                manner=asked.manner,
                naming=Naming(
                    label=label, placement=placement, command=without_secrets(sys.argv[1:])
                ),
                objectives=asked.objectives,
                path=path,
                run=name,
                began=watch.began,
                saw=watch.saw,
            )
        )
    console.say(f"kept as {path}")
    code = _tell(path, as_json=as_json)
    return 130 if ended == "interrupted" else code


def _tell(path: Path, *, as_json: bool) -> int:
    """Print a run's figures. All that is printed comes from the file, so it can be made again.

    Raises:
        NearfarError: the run holds no good answer.
    """
    run = runs.read(path)
    found = summary.of(run)
    if as_json:
        console.result_json(summary.document(found))
    else:
        console.result(tables.text(found, max(tables.WIDTH, shutil.get_terminal_size().columns)))
    if not run.measured:
        raise NearfarError(f"{path} holds no measured request.", "measure longer, or warm up less.")
    if not run.good:
        what = ", ".join(f"{count} × {name}" for name, count in found.failures.items())
        raise NearfarError(
            f"None of {len(run.measured)} requests had a whole answer: {what}.",
            "./nearfar trace asks once and says what is wrong.",
        )
    return 0


def without_secrets(words: list[str]) -> tuple[str, ...]:
    """The command line for the header, keys left out."""
    kept: list[str] = []
    hide = False
    for word in words:
        if hide:
            kept.append("…")
        elif word.startswith(tuple(f"{name}=" for name in _SECRET)):
            kept.append(f"{word.partition('=')[0]}=…")
        else:
            kept.append(session.bare(word) if "://" in word else word)
        hide = word in _SECRET
    return tuple(kept)
