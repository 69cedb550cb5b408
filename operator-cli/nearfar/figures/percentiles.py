"""Percentiles from an HDR histogram, and none that the number of samples does not carry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hdrh.histogram import HdrHistogram

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
# Three digits: a value is off by a thousandth at the most. From 0.1 us to ten hours.
_DIGITS = 3
_PER_UNIT = 10_000
_MOST = 36_000_000 * _PER_UNIT


def carries(n: int, share: float) -> bool:
    """Whether n samples say anything about a percentile: one of them must lie beyond it.

    So there is no 99th below 100 samples, and no 99.9th below 1,000.
    """
    return n > 0 and n * (1 - share) >= 1 - 1e-9


def name_of(share: float) -> str:
    """`p50`, `p99.9`."""
    return f"p{share * 100:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A distribution. A percentile that n does not carry is None."""

    n: int
    mean: float | None
    least: float | None
    most: float | None
    percentiles: Mapping[float, float | None]
    histogram: str

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Figure:
        """Over the observed values, in any unit; what is below 0 counts as 0."""
        seen = [max(0.0, value) for value in values if value is not None]
        drawn = HdrHistogram(1, _MOST, _DIGITS)
        for value in seen:
            drawn.record_value(min(_MOST, round(value * _PER_UNIT)))
        n = len(seen)
        most = max(seen, default=None)
        return cls(
            n=n,
            mean=sum(seen) / n if n else None,
            least=min(seen, default=None),
            most=most,
            percentiles={
                share: _at(drawn, rank(n, share), most) if carries(n, share) else None
                for share in SHARES
            },
            histogram=drawn.encode().decode("ascii"),
        )

    def at(self, share: float) -> float | None:
        """One of the percentiles."""
        return self.percentiles[share]

    def document(self) -> dict[str, Any]:
        """For JSON; nulls are told why. `histogram` is an HDR histogram of ten-thousandths."""
        missing = {
            name_of(share): _why(self.n, share) for share in SHARES if self.at(share) is None
        }
        return {
            "n": self.n,
            "mean": self.mean,
            "min": self.least,
            "max": self.most,
            **{name_of(share): self.at(share) for share in SHARES},
            "histogram": self.histogram,
            **({"not_available": missing} if missing else {}),
        }


def rank(n: int, share: float) -> int:
    """Which of n values in order, from 1, is the percentile: the first with `share` up to it."""
    return max(1, math.ceil(share * n - 1e-9))


def _at(drawn: Any, wanted: int, most: float | None) -> float:
    """The largest value that the histogram cannot tell apart, but none beyond what was seen.

    The library rounds to the nearest rank, which may lie one too low; so it is given the rank.
    """
    share = wanted / drawn.get_total_count()
    value = float(drawn.get_value_at_percentile(share * 100)) / _PER_UNIT
    return value if most is None else min(value, most)


def _why(n: int, share: float) -> str:
    return f"needs {round(1 / (1 - share))} samples, there are {n}"
