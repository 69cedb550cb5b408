"""What kinds of requests a run holds, and a difference that does not come from their mix.

A run with more short prompts is faster and nothing got better. The mix-adjusted difference takes
each kind's own difference and weighs them by the kind's share in both runs together (direct
standardisation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nearfar.runs import Sample
from nearfar.stats.blocks import Cells, Floats, cells
from nearfar.stats.bootstrap import Difference, difference
from nearfar.stats.side import Sides

# Half the sum of the shares' differences: 0 same mix, 1 nothing in common.
LEAST_CHANGE = 0.05
# Chance shuffles the mix as well; so many shuffles of whole blocks say how much.
SHUFFLES = 999
ALPHA = 0.01
LEAST_REQUESTS = 5  # of a kind on a side, for a difference of its own
UNKNOWN = "unknown"
_EDGES = (0, 128, 512, 2048, 8192, 32768)


def token_range(tokens: int | None) -> str:
    """Name the range that a count of tokens lies in."""
    if tokens is None:
        return UNKNOWN
    at = int(np.searchsorted(_EDGES, tokens, side="right"))
    return f"{_EDGES[at - 1]}-{_EDGES[at] - 1}" if at < len(_EDGES) else f"{_EDGES[-1]} and more"


def _label(path: str) -> Callable[[Sample], str]:
    return lambda sample: str(sample.recorded(path) or UNKNOWN)


# Kind of breakdown → what a request belongs to in it.
DIMENSIONS: dict[str, Callable[[Sample], str]] = {
    "model": _label("model"),
    "input range": lambda s: token_range(s.input_tokens),
    "output range": lambda s: token_range(s.output_tokens),
    "service version": _label("service_version"),
    "settings": _label("settings_hash"),
    "template version": _label("template_version"),
    "region": _label("region"),
    "route": _label("route"),
    "category": lambda s: str(s.category or s.recorded("category") or UNKNOWN),
    "cache": lambda s: str(s.x_cache or s.recorded("cache") or UNKNOWN),
    "instance": _label("instance"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """One kind of request; `difference` is None where a side has too few of it."""

    name: str
    requests: tuple[int, int]
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A quantity by kind of request.

    `swapped`: every request before was of one kind and every one after of another, which is a
    change and no mix. `change` is half the sum of the shares' differences, `p` how often chance
    makes as large a one. `adjusted` is None where the mix did not change or cannot be adjusted.
    """

    dimension: str
    groups: tuple[Group, ...]
    change: float
    p: float
    swapped: bool
    adjusted: Difference | None
    left_out: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the mix changed more than chance changes it."""
        return not self.swapped and self.change >= LEAST_CHANGE and self.p <= ALPHA


def breakdown(
    dimension: str, sides: Sides, value: Callable[[Sample], float | None], *, draws: int
) -> Breakdown | None:
    """Break a quantity down; None where all requests of both sides are of one kind."""
    key = DIMENSIONS[dimension]
    rows = tuple(
        [(at, key(s), v) for at, s in enumerate(side) if (v := value(s)) is not None]
        for side in (sides.before, sides.after)
    )
    names = sorted({name for side in rows for _, name, _ in side})
    if len(names) < 2:
        return None
    number = {name: at for at, name in enumerate(names)}
    before, after = (
        cells(
            [v for _, _, v in side],
            [place[at] for at, _, _ in side],
            [number[name] for _, name, _ in side],
            shape=(sides.rows[which], len(names)),
        )
        for which, (side, place) in enumerate(zip(rows, sides.places, strict=True))
    )
    return _broken_down(dimension, names, before, after, sides.paired, draws)


def _broken_down(
    dimension: str, names: Sequence[str], before: Cells, after: Cells, paired: bool, draws: int
) -> Breakdown:
    counts = tuple(side.counts.sum(axis=0) for side in (before, after))
    both = np.flatnonzero(np.minimum(*counts) >= LEAST_REQUESTS)
    groups = tuple(
        Group(
            name,
            (int(counts[0][at]), int(counts[1][at])),
            difference(_column(before, [at]), _column(after, [at]), paired=paired, draws=draws)
            if at in both
            else None,
        )
        for at, name in enumerate(names)
    )
    change = _change(before, after)
    swapped = all((side > 0).sum() == 1 for side in counts) and change == 1.0
    p = 0.0 if swapped else _chance(before, after, paired, change)
    found = Breakdown(
        dimension,
        groups,
        change,
        p,
        swapped,
        None,
        tuple(name for at, name in enumerate(names) if at not in both),
    )
    if not found.changed or not both.size:
        return found
    pooled = (counts[0] + counts[1])[both]
    adjusted = difference(
        _column(before, both),
        _column(after, both),
        paired=paired,
        weights=pooled / pooled.sum(),
        draws=draws,
    )
    return Breakdown(dimension, groups, change, p, swapped, adjusted, found.left_out)


def _column(side: Cells, at: Sequence[int] | np.ndarray) -> Cells:
    return Cells(side.sums[:, at], side.counts[:, at])


def _change(before: Cells, after: Cells) -> float:
    return float(np.abs(before.shares() - after.shares()).sum() / 2)


def _chance(before: Cells, after: Cells, paired: bool, change: float) -> float:
    """How often shuffled blocks differ as much: swapped within pairs, or dealt out anew."""
    rng = np.random.default_rng(0)
    one, two = before.counts, after.counts
    as_large = 0
    for _ in range(SHUFFLES):
        if paired:
            swap = rng.random((len(one), 1)) < 0.5
            a, b = np.where(swap, two, one), np.where(swap, one, two)
        else:
            dealt = rng.permutation(np.concatenate([one, two]))
            a, b = dealt[: len(one)], dealt[len(one) :]
        as_large += _distance(a, b) >= change - 1e-12
    return (as_large + 1) / (SHUFFLES + 1)


def _distance(one: Floats, two: Floats) -> float:
    a, b = one.sum(axis=0), two.sum(axis=0)
    if not a.sum() or not b.sum():
        return 1.0
    return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)
