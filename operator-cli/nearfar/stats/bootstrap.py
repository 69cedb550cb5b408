"""The difference of two means with its doubt, by a studentised bootstrap over blocks.

Whole blocks are drawn with replacement. Each draw gives t* = (d* - d) / se*, and the interval is
d ± q·se with q from |t*| (symmetric bootstrap-t; Hall 1988, The Annals of Statistics 16(3)). With
few blocks the plain percentile interval covers too rarely: docs/decisions/0015 has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from nearfar.stats.blocks import LEAST_BLOCKS, Cells, Floats

DRAWS = 4000
CONFIDENCE = 0.95
# A difference of this size is seen in so many of a hundred comparisons like this one.
POWER = 0.8
# se* of a draw that took nearly the same blocks throughout; keeps t* finite.
_LEAST_SE_SHARE = 1e-3
_NOISE = 1e-12  # of a float's last digits, where all blocks are equal
_VALUES_AT_ONCE = 2_000_000  # 16 MB


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """After minus before. `drawn` are the sorted |t*|; empty where there were too few blocks."""

    before: float
    after: float
    value: float
    se: float
    blocks: int
    drawn: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def known(self) -> bool:
        """Whether an interval can be given."""
        return self.drawn.size > 0

    @property
    def p(self) -> float:
        """How often a difference at least as large would come up if there were none."""
        if not self.known:
            return 1.0
        if self.se == 0:
            return 1.0 if self.value == 0 else 1 / (self.drawn.size + 1)
        larger = self.drawn.size - np.searchsorted(self.drawn, abs(self.value) / self.se)
        return float((larger + 1) / (self.drawn.size + 1))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The interval that holds the true difference in this share of comparisons."""
        reach = self.critical(1 - confidence) * self.se
        return self.value - reach, self.value + reach

    def critical(self, alpha: float) -> float:
        """How many standard errors a difference must have to be told from none at `alpha`."""
        return float(np.quantile(self.drawn, 1 - alpha)) if self.known else float("nan")

    def smallest_seen(self, alpha: float) -> float:
        """The smallest true difference that is seen in `POWER` of all comparisons like this."""
        return (self.critical(alpha) + NormalDist().inv_cdf(POWER)) * self.se


def difference(
    before: Cells,
    after: Cells,
    *,
    paired: bool,
    weights: Floats | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Difference:
    """Return the difference of two means over requests.

    With `weights` over the groups it is the weighted sum of the groups' differences, and without
    the plain one of all requests. `paired`: block k of one side ran beside block k of the other,
    and both are drawn together.

    Raises:
        ValueError: paired sides of different length.
    """
    if weights is None:
        before, after = _pooled(before), _pooled(after)
        weights = np.ones(1)
    whole = (before.mean, after.mean)
    if paired:
        if before.sums.shape != after.sums.shape:
            raise ValueError("paired sides have the same blocks")
        both = np.flatnonzero((before.counts.sum(axis=1) > 0) & (after.counts.sum(axis=1) > 0))
        before, after = before.of_blocks(both), after.of_blocks(both)
    else:
        before, after = _filled(before), _filled(after)
    blocks = min(before.blocks, after.blocks)
    if not blocks:
        return Difference(*whole, whole[1] - whole[0], float("nan"), 0)
    one, two, spread = _estimate(_whole(before), _whole(after), weights, paired=paired)
    found = Difference(
        float(one[0]), float(two[0]), float((two - one)[0]), float(spread[0]), blocks
    )
    if blocks < LEAST_BLOCKS or not np.isfinite(found.se):
        return found
    rng = np.random.default_rng(seed)
    return replace(found, drawn=_draw(before, after, weights, paired, found, draws, rng))


def _pooled(side: Cells) -> Cells:
    return Cells(side.sums.sum(axis=1, keepdims=True), side.counts.sum(axis=1, keepdims=True))


def _filled(side: Cells) -> Cells:
    return side.of_blocks(np.flatnonzero(side.counts.sum(axis=1) > 0))


# Sums and counts, each of shape (draws, blocks, groups).
Drawn = tuple[Floats, Floats]


def _whole(side: Cells) -> Drawn:
    return side.sums[None], side.counts[None]


def _draw(
    before: Cells,
    after: Cells,
    weights: Floats,
    paired: bool,
    found: Difference,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """The sorted |t*| of all draws in which every group was drawn."""
    scale = max(abs(found.before), abs(found.after))
    floor = max(found.se * _LEAST_SE_SHARE, scale * _NOISE, np.finfo(float).tiny)
    at_once = max(1, _VALUES_AT_ONCE // max(before.sums.size, after.sums.size))
    parts: list[Floats] = []
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        rows = rng.integers(0, len(before.sums), (count, len(before.sums)))
        others = rows if paired else rng.integers(0, len(after.sums), (count, len(after.sums)))
        one, two, spread = _estimate(
            (before.sums[rows], before.counts[rows]),
            (after.sums[others], after.counts[others]),
            weights,
            paired=paired,
        )
        parts.append(np.abs(two - one - found.value) / np.maximum(spread, floor))
    drawn = np.concatenate(parts)
    return np.sort(drawn[np.isfinite(drawn)])


def _estimate(
    before: Drawn, after: Drawn, weights: Floats, *, paired: bool
) -> tuple[Floats, Floats, Floats]:
    """Both weighted means and the standard error of their difference, one for each draw."""
    one, influence_one = _side(before, weights)
    two, influence_two = _side(after, weights)
    if paired:
        return one, two, _se(influence_two - influence_one)
    return one, two, np.hypot(_se(influence_one), _se(influence_two))


def _side(side: Drawn, weights: Floats) -> tuple[Floats, Floats]:
    """The weighted mean, and how much each block bears on it (draws × blocks).

    A mean over blocks of unequal size is a ratio; the influence is its linearisation.
    """
    sums, counts = side
    size = counts.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums.mean(axis=1, keepdims=True) / size
        influence = ((sums - means * counts) / size) @ weights
    return means[:, 0, :] @ weights, influence


def _se(influence: Floats) -> Floats:
    blocks = influence.shape[1]
    if blocks < 2:
        return np.full(len(influence), np.nan)
    found: Floats = np.sqrt((influence**2).sum(axis=1) / (blocks * (blocks - 1)))
    return found
