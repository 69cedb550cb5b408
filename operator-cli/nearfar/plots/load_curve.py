"""Goodput against load: one point a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearfar.figures.summary import Summary


@dataclass(frozen=True, slots=True)
class Point:
    """A run's load and what it gave. `kind` says what the load is counted in."""

    name: str
    kind: str
    load: float
    good_per_s: float
    share: float | None
    objectives: str


def points(named: Sequence[tuple[str, Summary]]) -> tuple[Point, ...]:
    """One for each run that was measured; without objectives a whole answer is a good one."""
    found = []
    for name, summary in named:
        load, window_s = summary.run.header.load, summary.window_s
        offered = load.rate_per_s if load.is_open else load.concurrency
        if offered is None and window_s:
            offered = len(summary.run.measured) / window_s
        goodput = summary.goodput
        kept = len(summary.run.good) if goodput is None else goodput.kept
        if offered is None or not window_s:
            continue
        kind = "requests a second" if load.is_open else "streams at once"
        share = kept / len(summary.run.measured) if summary.run.measured else None
        found.append(
            Point(name, kind, float(offered), kept / window_s, share, _objectives(summary))
        )
    return tuple(found)


def _objectives(summary: Summary) -> str:
    wanted = summary.run.header.objectives
    named = {
        "first content": wanted.first_content_ms,
        "time per token": wanted.tpot_ms,
        "end to end": wanted.end_to_end_ms,
    }
    told = ", ".join(f"{name} ≤ {ms:g} ms" for name, ms in named.items() if ms is not None)
    return told or "a whole answer (no objective was set)"
