"""Measures the edge beside a bare pass-through, nginx, vllm-router and the direct call.

    python -m tests.bench.edge --edge-url http://127.0.0.1:3000 --edge-key nf_… --edge-pid 4711

Everything runs in one run and in turns, on one machine: only the ratios travel. The upstream is
the tests' fake one, on the port that the edge must have as its upstream (--upstream-port).
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .parts import PARTS, Effort, Row
from .processes import Processes
from .targets import Setup, Target, Targets

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen parts; the table or the JSON goes to stdout, progress to stderr.

    Returns 1 when more than one request in a hundred failed anywhere: such figures say nothing.
    """
    given = _parser().parse_args(arguments)
    edge = _edge(given, "edge", given.edge_url, given.edge_pid)
    fresh = _edge(given, "edge-fresh", given.fresh_edge_url, None)
    if edge is None and not given.without_edge:
        _parser().error("give the edge with --edge-url, or say --without-edge")
    folder = ROOT / ".nearfar" / "bench"
    processes = Processes(folder / "logs")
    targets = Targets(
        Setup(folder, given.upstream_port, given.install_router, edge, fresh), processes
    )
    chosen = given.part or list(PARTS)
    effort = Effort(given.rounds, given.seconds, given.streams)
    try:
        targets.start({name for part in chosen for name in PARTS[part][1]})
        rows = asyncio.run(_measure(targets, chosen, effort))
    finally:
        processes.stop()
    report = {"machine": _machine(), "missing": targets.missing, "rows": rows}
    print(json.dumps(report) if given.json else _table(rows, targets.missing))
    return int(any((row["error_rate"] or 0.0) > 0.01 for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.bench.edge", description=__doc__.split("\n")[0])
    parser.add_argument("--part", action="append", choices=list(PARTS), help="default: all")
    parser.add_argument("--edge-url", help="the edge under test, its upstream at --upstream-port")
    parser.add_argument("--fresh-edge-url", help="the same with one instance per request")
    parser.add_argument("--edge-key", help="an API key of both")
    parser.add_argument("--edge-model", default="mock")
    parser.add_argument("--edge-pid", type=int, help="its process, for memory and processor time")
    parser.add_argument("--without-edge", action="store_true", help="the comparisons alone")
    parser.add_argument("--upstream-port", type=int, default=9100)
    parser.add_argument("--install-router", action="store_true", help="install vllm-router")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one target in one round")
    parser.add_argument("--streams", type=int, default=30, help="single streams in one round")
    parser.add_argument("--json", action="store_true")
    return parser


def _edge(given: argparse.Namespace, name: str, url: str | None, pid: int | None) -> Target | None:
    if url is None:
        return None
    return Target(name, url.rstrip("/"), given.edge_model, given.edge_key, pid)


async def _measure(targets: Targets, chosen: Sequence[str], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    for part in chosen:
        started = time.monotonic()
        print(f"measuring {part} …", file=sys.stderr)
        rows += await PARTS[part][0](targets, effort)
        print(f"{part} took {time.monotonic() - started:.0f} s", file=sys.stderr)
    return rows


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


# The columns of each part, beside target, streams, n and errors.
_COLUMNS = {
    "paced": ("first_content_p50_ms", "added_p50_ms", "added_p99_ms", "cpu_ms_each"),
    "saturation": ("streams_a_s", "ratio_to_router", "to_end_p50_ms", "cpu_ms_each"),
    "cache": ("requests_a_s", "ratio_to_hello", "hits", "to_end_p50_ms", "cpu_ms_each"),
    "fresh": ("first_byte_p50_ms", "added_p50_ms", "first_byte_p99_ms", "cpu_ms_each"),
    "memory": ("rss_before_mib", "rss_most_mib", "pss_most_mib"),
}


def _table(rows: Sequence[Row], missing: dict[str, str]) -> str:
    lines: list[str] = []
    for part, columns in _COLUMNS.items():
        own = [row for row in rows if row["part"] == part]
        if own:
            names = ("target", "streams", "n", "error_rate", *columns)
            cells = [names, *(tuple(_cell(row[name]) for name in names) for row in own)]
            widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
            lines += ["", part]
            lines += ["  ".join(_aligned(line, widths)) for line in cells]
    lines += [f"not available: {name} ({reason})" for name, reason in missing.items()]
    return "\n".join(lines).strip()


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
