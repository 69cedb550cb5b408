"""Measures what admission is worth: goodput below, at and far above an engine's capacity.

    just overload [--vllm] [--seconds 12] [--factor 3] [--json]

The engine is a fake of a fixed number of slots that queues without bound, as an engine without
admission does, or with --vllm the real vLLM on this machine's processor. Both stacks have the same
edge, the same engine and the same arrivals; one of them has the gate between. The table goes to
stdout, a drawing beside the raw figures into .nearfar/bench. Exit codes: 0 goodput with admission
stays at 90% of capacity or more at and above capacity, 1 it does not.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nearfar.checkout import here
from nearfar.interrupt import stop_on_signals
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edge
from stack.whole import Whole

from . import chart, goodput, report
from .engines import Engine, fake, vllm
from .goodput import ADMITTED, BARE, Effort, Row
from .target import Target

AIM = 0.9


@contextmanager
def stacks(engine: Engine, run: Path) -> Iterator[tuple[Target, Target]]:
    """Two edges before one engine: one with the gate between, one without."""
    with ExitStack() as exits:
        found = []
        for name, admission in ((ADMITTED, True), (BARE, False)):
            folder = run / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            whole = exits.enter_context(
                Whole(
                    folder,
                    engine.url,
                    admission=admission,
                    gate_settings=engine.bounds,
                    model={"model": engine.model},
                )
            )
            found.append(_target(name, whole.edge()))
        yield found[0], found[1]


async def run(
    engine: Engine, targets: tuple[Target, Target], effort: Effort
) -> tuple[float, list[Row]]:
    """The engine's capacity in answers a second, and a row for each target and factor."""
    direct = Target("direct", engine.url, model=engine.model, key=UPSTREAM_KEY)
    per_s = await goodput.capacity(engine.question, direct, engine.slots, 4.0)
    _say(f"capacity: {per_s:.1f} answers a second with {engine.slots} slots")
    return per_s, await goodput.measure(targets, engine.question, per_s, effort, _say)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, draw and keep."""
    given = _parser().parse_args(arguments)
    folder = here().private / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    machine = report.machine()
    with stop_on_signals(), tempfile.TemporaryDirectory() as run_folder:
        start = vllm if given.vllm else fake
        with start(Path(run_folder)) as engine, stacks(engine, Path(run_folder)) as targets:
            effort = Effort(
                tuple(given.factor or (0.5, 1.0, 2.0, 3.0)),
                given.seconds,
                objective_s=engine.objective_s,
                patience_s=8 * engine.objective_s,
            )
            per_s, rows = asyncio.run(run(engine, targets, effort))
    found = {
        "engine": engine.name,
        "machine": machine,
        "capacity_per_s": per_s,
        "objective_s": effort.objective_s,
        "rows": goodput.as_json(rows),
    }
    _keep(folder / f"overload-{engine.name.replace(' ', '-')}", found, rows)
    print(json.dumps(found) if given.json else table(found, rows))
    return int(not reached(rows))


def reached(rows: Sequence[Row]) -> bool:
    """Whether admission keeps goodput up wherever there is enough load for it."""
    loaded = [row.share for row in rows if row.name == ADMITTED and row.factor > 1]
    return all(share >= AIM for share in loaded)


def table(found: dict[str, Any], rows: Sequence[Row]) -> str:
    """A line for each run, in Markdown."""
    names = ("load", "", "offered/s", "goodput/s", "of capacity", "n", "p50 s", "p99 s", "outcomes")
    lines = [
        f"{found['engine']}: capacity {found['capacity_per_s']:.1f} answers a second.",
        f"Good: whole, and first content within {found['objective_s']:g} s of when it was due.",
        "",
        f"| {' | '.join(names)} |",
        "|" + " --- |" * len(names),
    ]
    for row in rows:
        outcomes = ", ".join(f"{name} {n}" for name, n in sorted(row.outcomes.items()))
        cells = (
            f"{row.factor:g}x",
            row.name,
            f"{row.offered_per_s:.1f}",
            f"{row.goodput_per_s:.1f}",
            f"{row.share:.0%}",
            str(row.n),
            _seconds(row.first_content_p50_s),
            _seconds(row.first_content_p99_s),
            outcomes,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def drawing(found: dict[str, Any], rows: Sequence[Row]) -> str:
    """Goodput over offered load, both as parts of the capacity."""
    series = {
        name: [(row.factor, row.share) for row in rows if row.name == name]
        for name in (ADMITTED, BARE)
    }
    marks = [step / 2 for step in range(int(2 * max(row.factor for row in rows)) + 1)]
    title = f"Goodput under load: {found['engine']}"
    axes = ("offered load, times capacity", "goodput, times capacity")
    return chart.svg(title, axes, series, (marks, [0, 0.25, 0.5, 0.75, 1.0, 1.25]))


def _keep(stem: Path, found: dict[str, Any], rows: Sequence[Row]) -> None:
    stem.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")
    path = stem.with_suffix(".svg")
    path.write_text(drawing(found, rows), encoding="utf-8")
    _say(f"drawn into {path}")


def _target(name: str, edge: Edge) -> Target:
    caller = Caller()
    return Target(name, edge.url, key=caller.key, pid=edge.child.pid)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="overload", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--vllm", action="store_true", help="the real vLLM in place of the fake")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each run")
    parser.add_argument("--factor", type=float, action="append", help="default: 0.5 1 2 3")
    parser.add_argument("--json", action="store_true")
    return parser


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
