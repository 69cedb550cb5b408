"""nearfar compare: two runs or two deployments beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from nearfar import console, runs
from nearfar.errors import BadInput
from nearfar.runs import Run
from nearfar.stats import comparison, measures, quality, telling
from nearfar.stats.comparison import Comparison, Options
from nearfar.stats.likeness import ASPECTS

HELP = """Compare BEFORE and AFTER: two recorded runs, or two deployments measured in turns.

Each is the file of a run (nearfar bench --out), or the address of an edge. Two addresses are
measured in turns A B B A with the same prompts, seeds and limits, and both runs are kept. The words
of the verdict, and what none of this proves, are in docs/compare.md.

\b
Examples:
  nearfar compare monday.jsonl tuesday.jsonl
  nearfar compare before.jsonl after.jsonl --price 0.15/0.60 --json
  nearfar compare a.jsonl b.jsonl --allow cache --details
"""
FAILING = ("slower", "worse", "failures")


@click.command("compare", help=HELP)
@click.argument("before")
@click.argument("after")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(sorted(ASPECTS)),
    help="Let this differ between the runs; a warning says so. Repeatable.",
)
@click.option("--price", help="INPUT/OUTPUT, each the price of a million tokens.")
@click.option("--price-after", help="The same for AFTER, where it differs.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True),
    default=quality.MARGIN,
    show_default=True,
    help="By how much answers may be worse and still count as not worse, of a scale of 1.",
)
@click.option(
    "--fail-if",
    "failing",
    multiple=True,
    type=click.Choice(FAILING),
    help="End with code 1 when this was seen. Repeatable.",
)
@click.option("--details", is_flag=True, help="Show every breakdown, not those of a new mix alone.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(
    before: str,
    after: str,
    allow: tuple[str, ...],
    price: str | None,
    price_after: str | None,
    margin: float,
    failing: tuple[str, ...],
    details: bool,
    as_json: bool,
) -> int:
    prices = price and measures.price(price), price_after and measures.price(price_after)
    options = Options(
        allow=frozenset(allow),
        prices=(prices[0] or None, prices[1] or prices[0] or None),
        margin=margin,
    )
    one, two = (_read(name) for name in (before, after))
    found = comparison.compared(one, two, options)
    if as_json:
        console.result_json(found.as_dict())
    else:
        console.result("\n".join(telling.lines(found, details=details)))
    return 1 if _fails(found, failing) else 0


def _read(name: str) -> Run:
    """Read a run's file; the arm of one file that holds both is named after a colon."""
    path, _, arm = name.rpartition(":")
    if path and not Path(name).exists() and Path(path).exists():
        run = runs.read(Path(path))
        if arm not in run.arms:
            known = ", ".join(run.arms) or "none"
            raise BadInput(f"{path} has no arm {arm!r}.", f"its arms are: {known}")
        return run.of_arm(arm)
    return runs.read(Path(name))


def _fails(found: Comparison, failing: tuple[str, ...]) -> bool:
    felt = [found.row(name) for name in measures.FELT]
    seen = {
        "slower": any(row is not None and row.word == "slower" for row in felt),
        "worse": any(each.word == "worse" for each in found.quality),
        "failures": found.failures.interval[0] > 0,
    }
    return any(seen[name] for name in failing)
