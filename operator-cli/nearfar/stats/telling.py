"""A comparison as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from nearfar.runs import Header
from nearfar.stats import stages
from nearfar.stats.comparison import Absent, Comparison
from nearfar.stats.failures import Failures
from nearfar.stats.mix import Breakdown
from nearfar.stats.multiple import METHOD
from nearfar.stats.quality import Quality
from nearfar.stats.verdict import NONE_SEEN, TOO_FEW, Finding

NAME_CHARS = 31
_WORST = 1e-3
_HEAD = ("before", "after", "difference", "95% interval")


def lines(found: Comparison, *, details: bool = False) -> list[str]:
    """Return the whole comparison; `details` adds the breakdowns whose mix did not change."""
    told = [*_title(found), ""]
    told += [f"warning: {warning}" for warning in found.warnings]
    told += [""] if found.warnings else []
    told += [_header_line("what a user and the model server saw")]
    told += [_row(row) for row in found.rows]
    told.append(_failed(found.failures))
    told += _parts(found)
    told += ["", *_explained(found)]
    told += _qualities(found.quality)
    told += _broken_down(found, details)
    told += ["", *(f"not proved  {each}" for each in found.not_proved)]
    return told


def headline(found: Comparison) -> str:
    """The verdicts on first content and on the whole in one line."""
    rows = [found.row(name) for name in ("first content", "end to end")]
    return " · ".join(f"{row.name}: {verdict(row)}" for row in rows if row is not None)


def verdict(row: Finding) -> str:
    """The verdict in words; where none was seen, the smallest that could have been."""
    if row.word == TOO_FEW:
        return f"{TOO_FEW} for a verdict ({row.difference.blocks})"
    if row.word == NONE_SEEN and row.smallest_seen:
        return f"{NONE_SEEN} (from {_amount(row.smallest_seen, row.unit)} on it would have been)"
    if not row.seen:
        return row.word
    return f"{row.word} by {_amount(abs(row.value), row.unit)}"


def _title(found: Comparison) -> Iterator[str]:
    yield f"before  {_named(found.before)}"
    yield f"after   {_named(found.after)}"
    how = "measured in turns" if found.paired else "measured one after the other"
    blocks = found.blocks[0] if found.paired else f"{found.blocks[0]} and {found.blocks[1]}"
    yield f"{how} · {blocks} blocks · intervals by a symmetric bootstrap-t over blocks, 95%"
    yield f"each row's interval is its own; verdicts hold at 5% over all of a table ({METHOD})"


def _named(header: Header) -> str:
    names = (header.label, header.target.url, header.target.model, f"cache {header.cache}")
    return " · ".join(one for one in (*names, header.started_at) if one)


def _header_line(title: str) -> str:
    before, after, moved, interval = _HEAD
    return f"{title:<{NAME_CHARS + 2}}{before:>11} {after:>11} {moved:>11}  {interval:<21} verdict"


def _row(row: Finding | Absent, name: str = "") -> str:
    title = f"  {name or row.name:<{NAME_CHARS}}"
    if isinstance(row, Absent):
        return f"{title}  not available: {row.why}"
    low, high = row.difference.interval() if row.difference.known else (None, None)
    interval = "not available" if low is None or high is None else _interval(low, high)
    amounts = [_amount(value, row.unit) for value in (row.difference.before, row.difference.after)]
    moved = f"{_sign(row.value)}{_amount(abs(row.value), row.unit)}"
    return f"{title}{amounts[0]:>11} {amounts[1]:>11} {moved:>11}  {interval:<21} {_short(row)}"


def _short(row: Finding) -> str:
    if row.word == NONE_SEEN and row.smallest_seen:
        return f"{NONE_SEEN} (from {_amount(row.smallest_seen, row.unit)})"
    return row.word


def _failed(failures: Failures) -> str:
    one, two = (f"{rate:.2%}" for rate in failures.rates)
    low, high = (100 * end for end in failures.interval)
    word = "changed" if failures.differ else NONE_SEEN
    moved = f"{100 * (failures.rates[1] - failures.rates[0]):+.2f}%"
    interval = f"{low:+.2f} to {high:+.2f}"
    return (
        f"  {'failed requests':<{NAME_CHARS}}{one:>11} {two:>11} {moved:>11}  {interval:<21} {word}"
    )


def _parts(found: Comparison) -> list[str]:
    parts = found.explanation.parts
    if not parts:
        return []
    shown = [p for p in parts if p.seen or max(p.difference.before, p.difference.after) > _WORST]
    head = _header_line("where the time went, in order")
    return ["", head, *(_row(part) for part in shown)]


def _explained(found: Comparison) -> Iterator[str]:
    yield f"verdict     {headline(found)}"
    told = found.explanation
    if told.most is None:
        yield f"most of it  no stage is named: {told.why_not}"
    else:
        share = ", which what the user waits varies too much to show"
        if told.share is not None:
            share = f", {told.share:.0%} of the difference in {told.of}"
        amount = f"{_sign(told.most.value)}{_amount(abs(told.most.value), 'ms')}"
        yield f"most of it  {told.most.name}: {amount}{share}"
        if told.most.name in stages.MEANING:
            yield f"            ({stages.MEANING[told.most.name]})"
        if told.also is not None:
            half = "after first content" if stages.after_first(told.also.name) else "first content"
            amount = f"{_sign(told.also.value)}{_amount(abs(told.also.value), 'ms')}"
            yield f"and too     {told.also.name}: {amount}, the largest part of {half}"
    for each in found.evidence:
        yield f"evidence    {each}"
    if told.most is None:
        for change in found.changes:
            yield f"changed     {change.what}: {change.before or 'none'} → {change.after or 'none'}"


def _qualities(found: tuple[Quality, ...]) -> list[str]:
    return [line for each in found for line in _quality(each)]


def _quality(found: Quality) -> Iterator[str]:
    scores = f"{found.before:.1%} → {found.after:.1%}"
    yield f"quality     {found.name}: {scores}, {_quality_word(found)}"
    if found.ungraded:
        yield f"            {found.ungraded} answers could not be graded and are in neither figure"


def _quality_word(found: Quality) -> str:
    margin = f"{100 * found.margin:g} points"
    if found.interval is None:
        return "nothing shown: too few blocks"
    low, high = (f"{100 * end:+.1f}" for end in found.interval)
    words = {
        "not worse": f"not worse by {margin} or more",
        "worse": f"worse by more than {margin}",
        "not shown": f"not shown to be within {margin}",
    }
    return f"{words[found.word]} (95% interval {low} to {high} points)"


def _broken_down(found: Comparison, details: bool) -> list[str]:
    shown = [(of, b) for of, b in found.breakdowns if details or b.changed]
    return [line for of, each in shown for line in _breakdown(of, each)]


def _breakdown(of: str, found: Breakdown) -> Iterator[str]:
    state = "swapped" if found.swapped else "mix changed" if found.changed else "same mix"
    yield ""
    yield f"{of} by {found.dimension} ({state})"
    for group in found.groups:
        counts = f"{group.requests[0]} and {group.requests[1]} requests"
        if group.difference is None:
            yield f"  {group.name:<{NAME_CHARS}}{counts}, too few on a side to compare"
            continue
        d = group.difference
        yield (
            f"  {group.name:<{NAME_CHARS}}{_amount(d.before, 'ms'):>11} "
            f"{_amount(d.after, 'ms'):>11} {_sign(d.value)}{_amount(abs(d.value), 'ms')}, {counts}"
        )
    if found.adjusted is not None:
        adjusted = found.adjusted
        low, high = adjusted.interval() if adjusted.known else (float("nan"), float("nan"))
        without = f"; without {', '.join(found.left_out)}" if found.left_out else ""
        moved = f"{_sign(adjusted.value)}{_amount(abs(adjusted.value), 'ms')}"
        interval = f"95% interval {_interval(low, high)}{without}"
        yield f"  mix-adjusted difference {moved} ({interval})"


def _amount(value: float, unit: str) -> str:
    if unit == "ms":
        return f"{value:,.1f} ms" if abs(value) >= 1 else f"{value:.3f} ms"
    return f"{value:.6f}" if unit == "price" else f"{value:,.2f}"


def _interval(low: float, high: float) -> str:
    """Both ends with the same number of digits behind the point, as many as they need."""
    size = max(abs(low), abs(high))
    digits = 0 if size >= 1000 else 1 if size >= 1 else 3
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def _sign(value: float) -> str:
    return "-" if value < 0 else "+"
