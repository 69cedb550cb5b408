"""Measures the edge beside a bare pass-through, nginx, vllm-router and the direct call.

    just bench-edge [--part paced] [--rounds 2] [--json] [--update docs/performance.md]

Everything runs in one run and in turns, on one machine: only the ratios travel. The upstream is
the tests' fake one; the edge is the one that `nearfar up` serves, with its store.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nearfar.checkout import here
from nearfar.interrupt import stop_on_signals

from . import report
from .parts import PARTS, Effort, Row
from .processes import Processes
from .targets import Setup, Targets

# What x-cache has to say, so that what was measured is the way that the part's name promises.
_EXPECTED = {
    "memory": "miss",
    "paced": "miss",
    "saturation": "miss",
    "cache": "hit",
    "fresh": "hit",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen parts; tables or JSON go to stdout, progress to stderr.

    Returns 1 when the edge could not be measured, more than one request in a hundred failed
    anywhere, or an answer of the edge came another way than it should have.
    """
    given = _parser().parse_args(arguments)
    folder = here().private / "bench"
    if given.read is None:
        found = _run(folder, given)
        _keep(folder, found)
    else:
        found = json.loads(given.read.read_text(encoding="utf-8"))
    text = report.markdown(found)
    if given.update is not None:
        report.write_into(given.update, text)
    print(json.dumps(found) if given.json else text)
    doubts = [doubt for row in found["rows"] for doubt in _doubts(row)]
    doubts += [f"no {name}: {why}" for name, why in found["missing"].items() if "edge" in name]
    for doubt in doubts:
        print(f"bench: {doubt}", file=sys.stderr)
    return int(bool(doubts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-edge", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", action="append", choices=list(PARTS), help="default: all")
    parser.add_argument("--install-router", action="store_true", help="install vllm-router")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one target in one round")
    parser.add_argument("--streams", type=int, default=30, help="single streams in one round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="put the tables into a page")
    parser.add_argument("--read", type=Path, metavar="FILE", help="a kept run; measure nothing")
    return parser


def _run(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    chosen = given.part or list(PARTS)
    effort = Effort(given.rounds, given.seconds, given.streams)
    processes = Processes(folder / "logs")
    targets = Targets(Setup(folder, given.install_router), processes)
    machine = report.machine()
    with stop_on_signals():
        try:
            targets.start({name for part in chosen for name in PARTS[part][1]})
            rows = asyncio.run(_measure(targets, chosen, effort))
        finally:
            targets.stop()
            processes.stop()
    found = {"machine": machine, "effort": asdict(effort), "missing": targets.missing}
    return found | {"rows": rows}


async def _measure(targets: Targets, chosen: Sequence[str], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    for part in chosen:
        started = time.monotonic()
        print(f"measuring {part} …", file=sys.stderr)
        rows += await PARTS[part][0](targets, effort)
        print(f"{part} took {time.monotonic() - started:.0f} s", file=sys.stderr)
    return rows


def _keep(folder: Path, found: dict[str, Any]) -> None:
    """Keep the run, so that its tables can be made again with --read."""
    path = folder / f"edge-{found['machine']['at'].replace(':', '')}.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    print(f"kept as {path}", file=sys.stderr)


def _doubts(row: Row) -> list[str]:
    name = f"{row['part']} {row['target']}"
    doubts = []
    if (row["error_rate"] or 0.0) > 0.01:
        doubts.append(f"{name}: {row['error_rate']:.0%} failed: {row['errors']}")
    if row["target"].startswith("edge") and row["x_cache"] != _EXPECTED[row["part"]]:
        doubts.append(f"{name}: x-cache said {row['x_cache']}, not {_EXPECTED[row['part']]}")
    return doubts


if __name__ == "__main__":
    sys.exit(main())
