"""Measures nearfar beside direct calls, vllm-router and LiteLLM's proxy, each by itself.

    just bench-peers [--rounds 2] [--seconds 3] [--json] [--update docs/performance.md]
    just bench-peers --generators [--pairs 10]

Every peer has an environment of its own; the same client puts the same load on all of them in
turns, at 1, 8, 32 and 64 streams and at saturation. The direct call and vllm-router have no key to
check; nearfar and LiteLLM check one, and nearfar looks its cache up and keeps the answer.
`edge-gated` has the gate as a process of its own between edge and upstream. With --generators it is
the load generator that stands beside others, on one server.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nearfar.checkout import here
from nearfar.interrupt import stop_on_signals

from .. import parts, report
from ..aims import Row
from ..parts import Effort
from ..processes import Processes
from ..targets import Setup, Targets
from . import generators, tables

PEERS = ("direct", "edge", "edge-gated", "vllm-router", "litellm")
LEVELS = (1, 8, 32, 64)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or JSON. Returns 1 where a peer is missing or failed too often."""
    given = _parser().parse_args(arguments)
    folder = here().private / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    if given.generators:
        return generators.main(folder, given.pairs, given.rival, as_json=given.json)
    found = _run(folder, given)
    text = tables.markdown(found)
    if given.update is not None:
        report.write_into(given.update, text, tables.MARKS)
    print(json.dumps(found) if given.json else text)
    doubts = [f"no {name}: {why}" for name, why in found["missing"].items()]
    doubts += [
        f"{row['part']} {row['target']}: {row['error_rate']:.0%} failed: {row['errors']}"
        for row in found["rows"]
        if (row["error_rate"] or 0.0) > 0.01
    ]
    for doubt in doubts:
        print(f"bench: {doubt}", file=sys.stderr)
    return int(bool(doubts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one peer in one round")
    parser.add_argument("--streams", type=int, default=30, help="single streams in one round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="put the tables into a page")
    parser.add_argument(
        "--generators", action="store_true", help="the load generator beside others"
    )
    parser.add_argument("--rival", choices=generators.RIVALS, help="default: both, one by one")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs with each of them")
    return parser


def _run(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    effort = Effort(given.rounds, given.seconds, given.streams)
    processes = Processes(folder / "logs")
    targets = Targets(Setup(folder, install_router=True, install_litellm=True), processes)
    machine = report.machine()
    with stop_on_signals():
        try:
            targets.start(set(PEERS))
            rows = asyncio.run(_measure(targets, effort))
        finally:
            targets.stop()
            processes.stop()
    found = {"machine": machine, "effort": asdict(effort), "missing": targets.missing}
    return found | {"rows": tables.with_ratios(rows)}


async def _measure(targets: Targets, effort: Effort) -> list[Row]:
    started = {name: target.start_s for name, target in targets.found.items()}
    print("measuring memory …", file=sys.stderr)
    rows = [
        row | {"start_s": started[row["target"]]}
        for row in await parts.memory(targets, effort, PEERS)
    ]
    print("measuring paced streams …", file=sys.stderr)
    rows += await parts.paced(targets, effort, LEVELS, PEERS)
    print("measuring saturation …", file=sys.stderr)
    return rows + await parts.saturation(targets, effort, PEERS)


if __name__ == "__main__":
    sys.exit(main())
