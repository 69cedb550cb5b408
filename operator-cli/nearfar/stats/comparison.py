"""A whole comparison of two runs: everything that is then shown, as one value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from nearfar.runs import Header, Run
from nearfar.stats import failures, links, measures, mix, quality, remarks
from nearfar.stats.bootstrap import DRAWS, difference
from nearfar.stats.explanation import Explanation, explained
from nearfar.stats.failures import Failures
from nearfar.stats.likeness import Unlike, check
from nearfar.stats.links import Handshakes, Link
from nearfar.stats.measures import END_TO_END, FELT, FIRST_CONTENT, Measure, Price
from nearfar.stats.mix import Breakdown
from nearfar.stats.multiple import METHOD
from nearfar.stats.quality import Quality
from nearfar.stats.remarks import Change
from nearfar.stats.side import Sides, sides
from nearfar.stats.verdict import Finding, Measured, judged


@dataclass(frozen=True, slots=True)
class Options:
    """How to compare. `allow` names unlike aspects that may pass; `margin` is of the quality."""

    allow: frozenset[str] = frozenset()
    prices: tuple[Price | None, Price | None] = (None, None)
    margin: float = quality.MARGIN
    handshakes: tuple[Handshakes | None, Handshakes | None] = (None, None)
    draws: int = DRAWS


@dataclass(frozen=True, slots=True)
class Absent:
    """A row of the table that was not observed on a side, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side. `rows` are in the table's order."""

    before: Header
    after: Header
    paired: bool
    blocks: tuple[int, int]
    allowed: tuple[Unlike, ...]
    rows: tuple[Finding | Absent, ...]
    failures: Failures
    explanation: Explanation
    link: Link | None
    breakdowns: tuple[tuple[str, Breakdown], ...]
    changes: tuple[Change, ...]
    quality: tuple[Quality, ...]
    evidence: tuple[str, ...]
    not_proved: tuple[str, ...]

    def row(self, name: str) -> Finding | None:
        """A row by its name; None where it was not observed."""
        return next((r for r in self.rows if isinstance(r, Finding) and r.name == name), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What has to be read before any figure."""
        return remarks.warnings(self.allowed, self.breakdowns, self.failures)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "schema": "nearfar.comparison/1",
            "before": _named(self.before),
            "after": _named(self.after),
            "interleaved": self.paired,
            "blocks": list(self.blocks),
            "correction": METHOD,
            "allowed": [str(each) for each in self.allowed],
            "warnings": list(self.warnings),
            "table": [
                row.as_dict()
                if isinstance(row, Finding)
                else {"name": row.name, "not_available": row.why}
                for row in self.rows
            ],
            "failures": self.failures.as_dict(),
            "explanation": self.explanation.as_dict(),
            "link": self.link.as_dict() if self.link else None,
            "changes": [each.as_dict() for each in self.changes],
            "breakdowns": [remarks.broken_down(of, each) for of, each in self.breakdowns],
            "quality": [each.as_dict() for each in self.quality],
            "evidence": list(self.evidence),
            "not_proved": list(self.not_proved),
        }


def compared(
    before: Run, after: Run, options: Options, scores: Sequence[quality.Scores] = ()
) -> Comparison:
    """Compare two runs; `scores` are of a judge or of embeddings, made beforehand.

    Raises:
        BadInput: a run has no whole answer, or the runs are unlike and that was not allowed.
    """
    allowed = check(before.header, after.header, options.allow)
    both = sides(before, after)
    rows = _rows(both, options)
    felt = {row.name: row for row in rows if isinstance(row, Finding) and row.name in FELT}
    explanation = explained(both, felt, draws=options.draws)
    link = links.named(explanation.most, *options.handshakes, draws=options.draws)
    broken = tuple(_breakdowns(both, options.draws))
    changes = remarks.changes(before, after, both)
    failed = failures.compared(before, after)
    graded = quality.compared(both, options.margin, scores, draws=options.draws)
    told = remarks.Told(both, rows_of(rows), explanation, link, changes, broken, graded)
    return Comparison(
        before.header,
        after.header,
        both.paired,
        both.rows,
        allowed,
        rows,
        failed,
        explanation,
        link,
        broken,
        changes,
        graded,
        remarks.evidence(told),
        remarks.not_proved(told, before, after),
    )


def _named(header: Header) -> dict[str, Any]:
    return {
        "run": header.run,
        "label": header.label,
        "started_at": header.started_at,
        "url": header.target.url,
        "model": header.target.model,
        "placement": header.placement,
        "cache": header.cache,
    }


def rows_of(rows: Collection[Finding | Absent]) -> dict[str, Finding]:
    """The rows that were observed, by name."""
    return {row.name: row for row in rows if isinstance(row, Finding)}


def _rows(both: Sides, options: Options) -> tuple[Finding | Absent, ...]:
    """The table. What a user feels is one family of tests, the other rows are another."""
    measured, absent = {}, {}
    for one, two in measures.rows(options.prices):
        found = _measured(both, one, two, options.draws)
        if found is None:
            absent[one.name] = Absent(one.name, _why(both, one, two))
        else:
            measured[one.name] = found
    families = [[m for n, m in measured.items() if (n in FELT) is felt] for felt in (True, False)]
    findings = {found.name: found for family in families for found in judged(family)}
    return tuple((findings | absent)[one.name] for one, _ in measures.rows(options.prices))


def _measured(both: Sides, one: Measure, two: Measure, draws: int) -> Measured | None:
    values = measures.taken(both.before, one.value), measures.taken(both.after, two.value)
    if not all(values):
        return None
    cells = [both.cells(which, found) for which, found in enumerate(values)]
    found = difference(cells[0], cells[1], paired=both.paired, draws=draws)
    return Measured(one.name, one.unit, found, (len(values[0]), len(values[1])))


def _why(both: Sides, one: Measure, two: Measure) -> str:
    sides_without = [
        (name, measure.absent)
        for name, samples, measure in (("before", both.before, one), ("after", both.after, two))
        if not measures.taken(samples, measure.value)
    ]
    if len(sides_without) == 2:
        return sides_without[0][1]
    name, why = sides_without[0]
    return f"{name}: {why}"


def _breakdowns(both: Sides, draws: int) -> list[tuple[str, Breakdown]]:
    """Every dimension with more than one kind, for first content and for end to end."""
    values = {m.name: m.value for m, _ in measures.rows((None, None))}
    found = []
    for dimension in mix.DIMENSIONS:
        for name in (FIRST_CONTENT, END_TO_END):
            one = mix.breakdown(dimension, both, values[name], draws=draws)
            if one is not None:
                found.append((name, one))
    return found
