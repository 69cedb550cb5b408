"""What a few measurements carry: a median, its interval from ranks, the least and the most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# With fewer values no pair of them holds the median with 95 percent: 2 * 0.5**5 is above 0.05.
INTERVAL_NEEDS = 6
_OUTSIDE = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """`low` and `high`: the 95% interval of the median, None below `INTERVAL_NEEDS` values.

    It takes no shape of the distribution for granted; it takes the values for independent.
    """

    n: int
    median: float
    low: float | None
    high: float | None
    least: float
    most: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        """The spread of the values, None where there are none."""
        ordered = sorted(values)
        n = len(ordered)
        if not n:
            return None
        middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        rank = interval_rank(n)
        low, high = (None, None) if rank is None else (ordered[rank - 1], ordered[n - rank])
        return Spread(n, middle, low, high, ordered[0], ordered[-1])


def interval_rank(n: int) -> int | None:
    """The largest r for which the r-th value from below and from above hold the median at 95%.

    From the binomial distribution of how many of n values lie below the median: the interval leaves
    out 2 * P(B(n, 1/2) < r).
    """
    below, found = 0.0, None
    for rank in range(1, n // 2 + 1):
        below += math.comb(n, rank - 1) / 2**n
        if 2 * below > _OUTSIDE:
            break
        found = rank
    return found


def milliseconds(value: float | None) -> str:
    """A duration for people, with the digits that it deserves."""
    if value is None:
        return "not available"
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1_000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def whole_seconds(value: float | None) -> str:
    """A duration that was read off clocks of whole seconds."""
    return "not available" if value is None else f"{value / 1000:.0f} s"


def shown(spread: Spread | None, of: Callable[[float], str] = milliseconds) -> str:
    """Median, interval and n in one cell."""
    if spread is None:
        return "not available"
    if spread.low is None or spread.high is None:
        reach = f"{of(spread.least)} to {of(spread.most)}"
        return f"{of(spread.median)} ({reach} seen, n={spread.n})"
    return f"{of(spread.median)} (95% {of(spread.low)} to {of(spread.high)}, n={spread.n})"
