"""What a difference is called. docs/compare.md defines the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearfar.stats.bootstrap import CONFIDENCE, Difference
from nearfar.stats.multiple import ALPHA, holm

Word = Literal["faster", "slower", "fewer", "more", "no difference seen", "too few blocks"]
_WORDS: Mapping[str, tuple[Word, Word]] = {
    "ms": ("faster", "slower"),
    "": ("fewer", "more"),
}
NONE_SEEN: Word = "no difference seen"
TOO_FEW: Word = "too few blocks"


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference and what may be said of it. `p` is corrected for the whole family.

    `smallest_seen` is the smallest true difference that 8 of 10 such comparisons would see.
    """

    name: str
    unit: str
    difference: Difference
    p: float
    smallest_seen: float | None
    word: Word
    requests: tuple[int, int]

    @property
    def seen(self) -> bool:
        """Whether there is a difference."""
        return self.word not in (NONE_SEEN, TOO_FEW)

    @property
    def value(self) -> float:
        """After minus before."""
        return self.difference.value

    def as_dict(self) -> dict[str, Any]:
        """For --json; what is not known is null."""
        low, high = self.difference.interval() if self.difference.known else (None, None)
        return {
            "name": self.name,
            "unit": self.unit,
            "requests": list(self.requests),
            "blocks": self.difference.blocks,
            "before": rounded(self.difference.before),
            "after": rounded(self.difference.after),
            "difference": rounded(self.value),
            "interval": None if low is None else [rounded(low), rounded(high)],
            "confidence": CONFIDENCE,
            "p_corrected": round(self.p, 6),
            "smallest_seen": rounded(self.smallest_seen),
            "verdict": self.word,
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """A difference before it is judged."""

    name: str
    unit: str
    difference: Difference
    requests: tuple[int, int]


def judged(family: Sequence[Measured]) -> tuple[Finding, ...]:
    """Judge all that is looked at together."""
    known = [one for one in family if one.difference.known]
    corrected = dict(
        zip((one.name for one in known), holm([o.difference.p for o in known]), strict=True)
    )
    return tuple(_finding(one, corrected.get(one.name, 1.0), len(known)) for one in family)


def _finding(one: Measured, p: float, size: int) -> Finding:
    found = one.difference
    smallest = found.smallest_seen(ALPHA / size) if found.known else None
    word = TOO_FEW
    if found.known:
        lower, higher = _WORDS.get(one.unit, _WORDS[""])
        word = NONE_SEEN if p > ALPHA else (lower if found.value < 0 else higher)
    return Finding(one.name, one.unit, found, p, smallest, word, one.requests)


def rounded(value: float | None) -> float | None:
    """For JSON, which has no number for what is not one."""
    return None if value is None or value != value else round(value, 6)
