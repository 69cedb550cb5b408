"""Whether the answers are as good as before: a faster answer that is wrong is no gain."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearfar.runs import Sample
from nearfar.stats.bootstrap import CONFIDENCE, difference
from nearfar.stats.failures import newcombe
from nearfar.stats.side import Sides

# Answers may be worse by so much of the whole scale and still count as not worse.
MARGIN = 0.05

Word = Literal["not worse", "worse", "not shown"]
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class Scores:
    """One way of grading: a score from 0 to 1 for each request that was graded, by its number.

    `ungraded` are answers that could not be graded, such as a judge's that could not be read.
    """

    name: str
    before: Mapping[int, float]
    after: Mapping[int, float]
    ungraded: int = 0


@dataclass(frozen=True, slots=True)
class Quality:
    """A grade before and after. `interval` is of after − before; None with too few blocks."""

    name: str
    graded: tuple[int, int]
    before: float
    after: float
    interval: tuple[float, float] | None
    margin: float
    ungraded: int

    @property
    def word(self) -> Word:
        """`not worse` and `worse` are by more than the margin; `not shown` is neither."""
        if self.interval is None:
            return "not shown"
        if self.interval[0] > -self.margin:
            return "not worse"
        return "worse" if self.interval[1] < -self.margin else "not shown"

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "name": self.name,
            "graded": list(self.graded),
            "before": round(self.before, 6),
            "after": round(self.after, 6),
            "interval": self.interval and [round(end, 6) for end in self.interval],
            "confidence": CONFIDENCE,
            "margin": self.margin,
            "ungraded": self.ungraded,
            "verdict": self.word,
        }


def compared(
    both: Sides, margin: float, scores: Sequence[Scores], *, draws: int
) -> tuple[Quality, ...]:
    """Grade what the workload knows the answer of, and compare every grade there is."""
    own = (
        _scored("exact match", both, exact),
        _scored("normalised match", both, normalised_match),
    )
    graded = [one for one in (*own, *scores) if one.before and one.after]
    return tuple(_quality(both, one, margin, draws) for one in graded)


def exact(sample: Sample) -> float | None:
    """1 where the answer is the expected one, to the last character; None where none is known."""
    if sample.expected is None:
        return None
    if sample.answer is not None:
        return float(sample.answer == sample.expected)
    if sample.answer_sha256 is None:
        return None
    wanted = hashlib.sha256(sample.expected.encode("utf-8", "surrogatepass")).hexdigest()
    return float(sample.answer_sha256 == wanted)


def normalised_match(sample: Sample) -> float | None:
    """1 where both are the same without case, punctuation, articles and spaces.

    None where no answer is expected, or its text was not kept.
    """
    if sample.expected is None or sample.answer is None:
        return None
    return float(normalised(sample.answer) == normalised(sample.expected))


def normalised(text: str) -> str:
    """Fold case, compatibility forms, punctuation, articles and runs of spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(each if unicodedata.category(each)[0] not in "PS" else " " for each in folded)
    return " ".join(_ARTICLES.sub(" ", kept).split())


def same_answers(both: Sides) -> tuple[int, int] | None:
    """Of the requests asked on both sides, how many were answered alike, and of how many."""
    one, two = ({s.prompt_id: s.answer_sha256 for s in side} for side in (both.before, both.after))
    shared = [name for name in one if one[name] and two.get(name)]
    return (sum(one[name] == two[name] for name in shared), len(shared)) if shared else None


def _scored(name: str, both: Sides, score: Callable[[Sample], float | None]) -> Scores:
    before, after = (
        {at: v for at, s in enumerate(side) if (v := score(s)) is not None}
        for side in (both.before, both.after)
    )
    return Scores(name, before, after)


def _quality(both: Sides, scores: Scores, margin: float, draws: int) -> Quality:
    one, two = both.cells(0, scores.before), both.cells(1, scores.after)
    found = difference(one, two, paired=both.paired, draws=draws)
    intervals = [found.interval()] if found.known else []
    if {*scores.before.values(), *scores.after.values()} <= {0.0, 1.0}:
        # Blocks that are all right or all wrong have no spread; a share's own interval has.
        hits = [(int(side.sums.sum()), side.requests) for side in (one, two)]
        intervals.append(newcombe(hits[0], hits[1]))
    widest = (min(i[0] for i in intervals), max(i[1] for i in intervals)) if intervals else None
    graded = (len(scores.before), len(scores.after))
    return Quality(scores.name, graded, found.before, found.after, widest, margin, scores.ungraded)
