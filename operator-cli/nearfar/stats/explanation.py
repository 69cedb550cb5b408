"""Which part of the way explains most of a difference, and what speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearfar.runs import Sample
from nearfar.stats import stages
from nearfar.stats.bootstrap import difference
from nearfar.stats.measures import AFTER_FIRST, END_TO_END, FIRST_CONTENT
from nearfar.stats.side import Sides
from nearfar.stats.stages import Split
from nearfar.stats.verdict import Finding, Measured, judged

# With fewer requests than this share carrying a record, the parts would be of another crowd.
LEAST_RECORDED = 0.95
# A part that moved without being felt is named from this share of the whole wait on: smaller ones
# are sure where they hardly vary, and matter to nobody.
LEAST_WORTH = 0.02
# Parts whose sizes differ by less than this, besides what chance makes, are of one size.
SAME_SIZE = 0.1
NO_RECORDS = (
    "not all requests came with the edge's record on both sides: the key needs the permission trace"
)
NOTHING_FELT = "neither first content nor what follows it moved more than chance moves it"
NOT_ENOUGH = "too few blocks for a verdict"
NO_PART = "no single part of the way moved more than chance moves it"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of the way with their differences; `most` is None where none can be named.

    `share` is the named part's difference in relation to that of what it is a part of (`of`); both
    are absent where the part moved and what the user waits varied too much to show it.
    `also` is the largest part of the other half of the way, before or after first content, where
    that half moved too. `why_not` says why nothing is named, or why there are no parts.
    """

    parts: tuple[Finding, ...]
    split: Split | None
    most: Finding | None
    of: str
    share: float | None
    why_not: str
    also: Finding | None = None

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "most": self.most.name if self.most else None,
            "of": self.of or None,
            "share": None if self.share is None else round(self.share, 4),
            "also": self.also.name if self.also else None,
            "why_not": self.why_not or None,
            "parts": [part.as_dict() for part in self.parts],
        }


def explained(sides: Sides, felt: Mapping[str, Finding], *, draws: int) -> Explanation:
    """Find the part that moved most in the direction of what moved for the user.

    A part is named only where first content, what follows it or the whole moved, and the part
    itself moved more than chance over all parts makes it.
    """
    split = _split(sides)
    both = [[stages.parts(each, split) for each in side] for side in (sides.before, sides.after)]
    known = [[each for each in side if each is not None] for side in both]
    if any(len(k) < LEAST_RECORDED * len(b) for k, b in zip(known, both, strict=True)):
        return Explanation((), None, None, "", None, NO_RECORDS)
    names = stages.ordered({name for side in known for each in side for name in each})
    found = judged([_measured(sides, both, name, draws) for name in names])
    return _named(found, split, felt)


def _split(sides: Sides) -> Split:
    one, two = stages.splits(sides.before), stages.splits(sides.after)
    return Split(one.call and two.call, one.stream and two.stream)


def _measured(
    sides: Sides, both: Sequence[Sequence[Mapping[str, float] | None]], name: str, draws: int
) -> Measured:
    # A stage that did not happen took no time; only so do the parts add up to the whole.
    values = [
        {at: each.get(name, 0.0) for at, each in enumerate(side) if each is not None}
        for side in both
    ]
    one, two = (sides.cells(which, found) for which, found in enumerate(values))
    found = difference(one, two, paired=sides.paired, draws=draws)
    return Measured(name, "ms", found, (len(values[0]), len(values[1])))


def _named(found: Sequence[Finding], split: Split, felt: Mapping[str, Finding]) -> Explanation:
    """Name the largest part among those on the side of the way that moved."""
    moved = {name: one for name, one in felt.items() if one.seen}
    if not moved:
        return _unfelt(found, split, felt)
    unfelt = _worth(found, felt)
    candidates = [part for part in found if part.seen and (_of(part, moved) or part in unfelt)]
    if not candidates:
        return Explanation(tuple(found), split, None, "", None, NO_PART)
    most = _first_of_the_largest(candidates)
    of = _of(most, moved)
    whole = moved[of].value if of else 0.0
    share = most.value / whole if whole else None
    is_late = stages.after_first(most.name)
    others = [c for c in candidates if stages.after_first(c.name) is not is_late]
    half = FIRST_CONTENT if is_late else AFTER_FIRST
    also = max(others, key=lambda part: abs(part.value), default=None) if half in moved else None
    return Explanation(tuple(found), split, most, of, share, "", also)


def _first_of_the_largest(candidates: Sequence[Finding]) -> Finding:
    """The largest; of several of one size the first on the way.

    What is held back early can make what follows longer or shorter, and never the other way round.
    """

    def reach(part: Finding) -> float:
        low, high = part.difference.interval()
        return (high - low) / 2

    largest = max(candidates, key=lambda part: abs(part.value))
    least = (1 - SAME_SIZE) * abs(largest.value) - reach(largest)
    return next(part for part in candidates if abs(part.value) + reach(part) >= least)


def _unfelt(found: Sequence[Finding], split: Split, felt: Mapping[str, Finding]) -> Explanation:
    """Name the part that moved, if it is worth it, although nothing that is felt shows it."""
    if not any(one.difference.known for one in felt.values()):
        return Explanation(tuple(found), split, None, "", None, NOT_ENOUGH)
    worth = _worth(found, felt)
    if not worth:
        return Explanation(tuple(found), split, None, "", None, NOTHING_FELT)
    most = _first_of_the_largest(worth)
    return Explanation(tuple(found), split, most, "", None, "")


def _worth(found: Sequence[Finding], felt: Mapping[str, Finding]) -> list[Finding]:
    """The parts that moved by so much of the whole wait that they are named, felt or not."""
    least = LEAST_WORTH * felt[END_TO_END].difference.before if END_TO_END in felt else float("inf")
    return [part for part in found if part.seen and abs(part.value) >= least]


def _of(part: Finding, moved: Mapping[str, Finding]) -> str:
    """What moved, in the same direction, that this is a part of; empty where there is none."""
    own = AFTER_FIRST if stages.after_first(part.name) else FIRST_CONTENT
    for name in (own, END_TO_END):
        if name in moved and moved[name].value * part.value > 0:
            return name
    return ""


def recorded(samples: Sequence[Sample]) -> int:
    """How many of these came with the edge's record."""
    return sum(sample.record is not None for sample in samples)
