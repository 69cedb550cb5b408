"""Requests without a whole answer, beside every latency: failing makes the rest look better."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from nearfar.runs import Run
from nearfar.stats.bootstrap import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed and counted requests of each side, and the interval of the rates' difference."""

    failed: tuple[int, int]
    counted: tuple[int, int]
    kinds: tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]
    interval: tuple[float, float]

    @property
    def rates(self) -> tuple[float, float]:
        """The share of requests that failed."""
        one, two = (f / c if c else 0.0 for f, c in zip(self.failed, self.counted, strict=True))
        return one, two

    @property
    def differ(self) -> bool:
        """Whether the rates differ more than chance makes them."""
        return self.interval[0] > 0 or self.interval[1] < 0

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "failed": list(self.failed),
            "counted": list(self.counted),
            "rates": [round(rate, 6) for rate in self.rates],
            "interval": [round(end, 6) for end in self.interval],
            "differ": self.differ,
            "kinds": [dict(kinds) for kinds in self.kinds],
        }


def compared(before: Run, after: Run) -> Failures:
    """Count the failures of two runs; requests that we ended ourselves are not counted."""
    counted = [[s for s in run.measured if s.outcome != "aborted"] for run in (before, after)]
    failed = [[s for s in side if not s.ok] for side in counted]
    kinds = [
        tuple(sorted(Counter(s.error.code if s.error else s.outcome for s in side).items()))
        for side in failed
    ]
    numbers = [(len(f), len(c)) for f, c in zip(failed, counted, strict=True)]
    return Failures(
        (numbers[0][0], numbers[1][0]),
        (numbers[0][1], numbers[1][1]),
        (kinds[0], kinds[1]),
        newcombe(numbers[0], numbers[1]),
    )


def newcombe(
    before: tuple[int, int], after: tuple[int, int], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The interval of a difference of two shares, each (how many, of how many), after − before.

    The hybrid of two Wilson intervals; it stays honest where a share is 0 or 1 (Newcombe 1998,
    Statistics in Medicine 17, method 10).
    """
    if not before[1] or not after[1]:
        return -1.0, 1.0
    one, two = before[0] / before[1], after[0] / after[1]
    low_one, high_one = wilson(*before, confidence)
    low_two, high_two = wilson(*after, confidence)
    value = two - one
    low = value - math.hypot(two - low_two, high_one - one)
    high = value + math.hypot(high_two - two, one - low_one)
    return max(-1.0, low), min(1.0, high)


def wilson(hits: float, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of a share (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = hits / count
    middle = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)
