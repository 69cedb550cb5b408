"""Whether two kinds of answers can be told apart by their times: how good the best guess is.

AUC is the chance that of one answer of each kind the classifier puts the right one first; 0.5 is
a coin (Hanley and McNeil 1982). Each figure is judged by its rank alone, and all of them together
by a logistic regression that never judges an answer that it was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

FEATURES = ("first_byte_ms", "first_content_ms", "end_ms", "mean_gap_ms", "largest_gap_ms")
TOGETHER = "all together"
AIM = 0.05  # from 0.5, at a thousand pairs
SIGMAS = 3.8
_FOLDS = 5
_STEPS = 6
_RIDGE = 1e-3

Row = Sequence[float]


@dataclass(frozen=True, slots=True)
class Timing:
    """When the parts of one answer came, in milliseconds from the request's last byte sent."""

    first_byte_ms: float
    first_content_ms: float
    events_ms: tuple[float, ...]

    @property
    def features(self) -> tuple[float, ...]:
        """The figures of FEATURES."""
        gaps = [later - one for one, later in pairwise(self.events_ms)] or [0.0]
        mean = sum(gaps) / len(gaps)
        return (self.first_byte_ms, self.first_content_ms, self.events_ms[-1], mean, max(gaps))


def allowed(pairs: int) -> float:
    """How far from 0.5 chance alone may lie: 3.8 standard deviations, the aim at the least.

    For n of each kind that do not differ the variance is (2n + 1) / 12n² (Mann and Whitney 1947).
    """
    return max(AIM, SIGMAS * math.sqrt((2 * pairs + 1) / (12 * pairs * pairs)))


def auc(negatives: Sequence[float], positives: Sequence[float]) -> float:
    """The chance that one of the positives is the larger one; equal ones count half."""
    ordered = sorted([(value, 0) for value in negatives] + [(value, 1) for value in positives])
    won, below, at = 0.0, 0, 0
    while at < len(ordered):
        end = at
        while end < len(ordered) and ordered[end][0] == ordered[at][0]:
            end += 1
        ones = sum(kind for _, kind in ordered[at:end])
        zeros = end - at - ones
        won += ones * (below + zeros / 2)
        below, at = below + zeros, end
    return won / (len(negatives) * len(positives))


def judged(one: Sequence[Timing], other: Sequence[Timing]) -> dict[str, float]:
    """The AUC by each figure and by all together. Answer i of both was asked as one pair."""
    rows = [[timing.features for timing in kind] for kind in (one, other)]
    found = {
        name: auc(*([row[at] for row in kind] for kind in rows)) for at, name in enumerate(FEATURES)
    }
    return found | {TOGETHER: auc(*_scores(*rows))}


def _scores(one: Sequence[Row], other: Sequence[Row]) -> tuple[list[float], list[float]]:
    """What the regression says of each answer, fitted to the pairs of the other folds."""
    scores: tuple[list[float], list[float]] = ([], [])
    for fold in range(_FOLDS):
        kept = [at for at in range(len(one)) if at % _FOLDS != fold]
        scale = _Scale([*(one[at] for at in kept), *(other[at] for at in kept)])
        fitted = [(scale(one[at]), 0) for at in kept] + [(scale(other[at]), 1) for at in kept]
        weights = _fit(fitted)
        for kind, rows in enumerate((one, other)):
            scores[kind].extend(_dot(weights, scale(row)) for row in rows[fold::_FOLDS])
    return scores


class _Scale:
    """Figures as ranks among those that are known: times have long tails."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._columns = [sorted(column) for column in zip(*rows, strict=True)]

    def __call__(self, row: Row) -> tuple[float, ...]:
        """Each figure between -1 and 1, and a constant."""
        ranks = (_share(column, value) for column, value in zip(self._columns, row, strict=True))
        return (1.0, *(2 * rank - 1 for rank in ranks))


def _share(column: Sequence[float], value: float) -> float:
    """The share of a sorted column that lies below a value."""
    low, high = 0, len(column)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if column[middle] < value else (low, middle)
    return low / len(column)


def _fit(rows: Sequence[tuple[Row, int]]) -> list[float]:
    """Weights of a logistic regression, by Newton's method with a little ridge."""
    size = len(rows[0][0])
    weights = [0.0] * size
    for _ in range(_STEPS):
        slope = [-_RIDGE * weight for weight in weights]
        bend = [[_RIDGE if i == j else 0.0 for j in range(size)] for i in range(size)]
        for row, kind in rows:
            said = 1 / (1 + math.exp(-max(-30.0, min(30.0, _dot(weights, row)))))
            for i, value in enumerate(row):
                slope[i] += (kind - said) * value
                for j in range(i + 1):
                    bend[i][j] += said * (1 - said) * value * row[j]
        weights = [weight + step for weight, step in zip(weights, _solve(bend, slope), strict=True)]
    return weights


def _solve(lower: list[list[float]], right: Sequence[float]) -> list[float]:
    """The solution of a symmetric positive system whose lower half is given (Cholesky)."""
    size = len(right)
    root = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            left = lower[i][j] - sum(root[i][k] * root[j][k] for k in range(j))
            root[i][j] = math.sqrt(left) if i == j else left / root[j][j]
    middle: list[float] = []
    for i in range(size):
        known = sum(root[i][k] * middle[k] for k in range(i))
        middle.append((right[i] - known) / root[i][i])
    solution = [0.0] * size
    for i in reversed(range(size)):
        known = sum(root[k][i] * solution[k] for k in range(i + 1, size))
        solution[i] = (middle[i] - known) / root[i][i]
    return solution


def _dot(weights: Sequence[float], row: Row) -> float:
    return sum(weight * value for weight, value in zip(weights, row, strict=True))
