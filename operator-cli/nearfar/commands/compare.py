"""nearfar compare: two runs or two deployments beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from nearfar import console, runs
from nearfar.commands import load_options, turns
from nearfar.errors import BadInput
from nearfar.runs import Run
from nearfar.stats import blocks, comparison, graders, links, measures, quality, telling
from nearfar.stats.comparison import Comparison, Options
from nearfar.stats.graders import Endpoint
from nearfar.stats.likeness import ASPECTS
from nearfar.stats.quality import Scores
from nearfar.stats.side import Sides, sides

HELP = """Compare BEFORE and AFTER: two recorded runs, or two deployments measured in turns.

Each is the file of a run (nearfar bench --out), or the address of an edge. Two addresses are
measured in turns A B B A with the same prompts, seeds and limits, and both runs are kept; the
options of the load are those of nearfar bench. The words of the verdict, and what none of this
proves, are in docs/compare.md.

\b
Code 0 says that both were compared, whatever came out; --fail-if makes it 1. Code 2: a file is no
run, or the runs are unlike each other.

\b
Examples:
  nearfar compare monday.jsonl tuesday.jsonl
  nearfar compare before.jsonl after.jsonl --price 0.15/0.60 --json
  nearfar compare a.jsonl b.jsonl --allow cache --details
  nearfar compare https://a.example https://b.example --prompts questions.jsonl --keep-text
  nearfar compare http://127.0.0.1:3000 http://127.0.0.1:3001 --concurrency 4 --requests 400
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
@click.option("--judge", help="Endpoint of a model that grades answers, with --judge-model.")
@click.option("--judge-model", default="", help="Its name. Key: NEARFAR_JUDGE_KEY.")
@click.option("--embeddings", help="Endpoint of embeddings, with --embeddings-model.")
@click.option("--embeddings-model", default="", help="Its name. Key: NEARFAR_EMBEDDINGS_KEY.")
@click.option(
    "--ways-before",
    type=click.Path(path_type=Path),
    help="What nearfar roundtrip --json printed of BEFORE: proof by which a link may be named.",
)
@click.option("--ways-after", type=click.Path(path_type=Path), help="The same of AFTER.")
@click.option("--api-key", envvar="NEARFAR_API_KEY", help="Key of both edges, or of BEFORE.")
@click.option("--api-key-after", help="Key of AFTER, where it is another.")
@click.option("--model", help="Model of both, or of BEFORE. Default: the first one offered.")
@click.option("--model-after", help="Model of AFTER, where it has another name.")
@click.option(
    "--rounds",
    type=click.IntRange(blocks.LEAST_BLOCKS),
    default=20,
    show_default=True,
    help="Turns of each side. More of them make the intervals narrower.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the runs that are measured. Default: .nearfar/runs.",
)
@load_options.options
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
    judge: str | None,
    judge_model: str,
    embeddings: str | None,
    embeddings_model: str,
    ways_before: Path | None,
    ways_after: Path | None,
    **given: Any,
) -> int:
    grading = _graders(judge, judge_model, embeddings, embeddings_model)
    prices = price and measures.price(price), price_after and measures.price(price_after)
    options = Options(
        allow=frozenset(allow),
        prices=(prices[0] or None, prices[1] or prices[0] or None),
        margin=margin,
        handshakes=(
            links.read(ways_before) if ways_before else None,
            links.read(ways_after) if ways_after else None,
        ),
    )
    one, two, stopped = _runs(before, after, given)
    both = sides(one, two) if grading and not stopped else None
    scores = [grade(both, endpoint) for grade, endpoint in grading] if both else []
    try:
        found = comparison.compared(one, two, options, scores)
    except BadInput as problem:
        if not stopped:
            raise
        console.error(problem)  # ended before anything could be compared; the files are kept
        return 130
    if as_json:
        console.result_json(found.as_dict())
    else:
        console.result("\n".join(telling.lines(found, details=details)))
    if stopped:
        return 130
    return 1 if _fails(found, failing) else 0


def _runs(before: str, after: str, given: Mapping[str, Any]) -> tuple[Run, Run, bool]:
    """Read both, or measure both; and whether that was ended early."""
    live = ["://" in name for name in (before, after)]
    if all(live):
        wanted = dict(given)
        key, key_after = wanted.pop("api_key"), wanted.pop("api_key_after")
        model, model_after = wanted.pop("model"), wanted.pop("model_after")
        rounds, out = wanted.pop("rounds"), wanted.pop("out")
        keys, models = (key, key_after or key), (model, model_after or model)
        return turns.measured((before, after), keys, models, rounds, out, wanted)
    if any(live):
        raise BadInput(
            "One is an address and the other a file.", "give two runs, or two edges to measure."
        )
    _check_no_load()
    return _read(before), _read(after), False


def _check_no_load() -> None:
    """Two files were measured already: an option of the load would do nothing."""
    context = click.get_current_context()
    loads = {p.name for p in load_options.options(click.command()(lambda: None)).params}
    loads |= {"rounds", "out", "api_key_after", "model", "model_after"}
    given = [
        name
        for name in sorted(filter(None, loads))
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise BadInput(
            f"--{given[0].replace('_', '-')} is for measuring, and both runs are recorded.",
            "leave it out, or give the addresses of two edges.",
        )


def _graders(
    judge: str | None, judge_model: str, embeddings: str | None, embeddings_model: str
) -> list[tuple[Callable[[Sides, Endpoint], Scores], Endpoint]]:
    found: list[tuple[Callable[[Sides, Endpoint], Scores], Endpoint]] = []
    if judge:
        key = os.environ.get("NEARFAR_JUDGE_KEY", "")
        found.append((graders.judged, Endpoint(judge, judge_model, key)))
    if embeddings:
        key = os.environ.get("NEARFAR_EMBEDDINGS_KEY", "")
        found.append((graders.likeness, Endpoint(embeddings, embeddings_model, key)))
    return found


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
