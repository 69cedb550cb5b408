"""Counts how the tests of each kind of fault ended, while pytest runs them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import pytest

from .kinds import KINDS, Kind

End = Literal["pass", "fail", "not built"]


@dataclass(slots=True, eq=False)
class Tally:
    """A pytest plugin; `wanted` bounds the run to some kinds."""

    wanted: frozenset[int] = frozenset()
    counts: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _kinds: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep what checks a wanted kind."""
        kept: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            kinds = tuple(n for mark in item.iter_markers("fault") for n in mark.args)
            self._kinds[item.nodeid] = kinds
            (kept if set(kinds) & (self.wanted or set(kinds)) else left).append(item)
        config.hook.pytest_deselected(items=left)
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test passed if its call did and nothing around it failed."""
        if report.when == "call" or report.outcome != "passed":
            for kind in self._kinds.get(report.nodeid, ()):
                self.counts[kind][report.outcome] += 1

    def rows(self) -> list[Row]:
        """One row a kind that was asked for."""
        asked = [kind for kind in KINDS if not self.wanted or kind.number in self.wanted]
        return [Row.of(kind, self.counts[kind.number]) for kind in asked]


@dataclass(frozen=True, slots=True)
class Row:
    """How one kind stands."""

    kind: Kind
    end: End
    tests: int
    note: str

    @staticmethod
    def of(kind: Kind, counts: Counter[str]) -> Row:
        """What is not built has no tests; what has none and should is a failure, as a skip is."""
        if kind.not_built and kind.whole:
            return Row(kind, "not built", 0, kind.not_built)
        wrong = [f"{counts[name]} {name}" for name in ("failed", "skipped") if counts[name]]
        notes = [*wrong, *([f"not built: {kind.not_built}"] if kind.not_built else [])]
        total = sum(counts.values())
        if not total:
            notes.insert(0, "no test checks it")
        return Row(kind, "fail" if wrong or not total else "pass", total, "; ".join(notes))


def table(rows: Iterable[Row]) -> str:
    """The rows as text, and a last line that sums them up."""
    rows = list(rows)
    width = max(len(row.kind.title) for row in rows)
    lines = [
        f"{row.kind.number:2}  {row.kind.title:{width}}  {row.end:9}"
        f"  {row.tests:3} tests  {row.note}"
        for row in rows
    ]
    ends = Counter(row.end for row in rows)
    told = ", ".join(f"{ends[end]} {end}" for end in ("pass", "fail", "not built"))
    return "\n".join(line.rstrip() for line in [*lines, told])
