"""Percentiles and rates, with the rule that no figure says more than its samples carry."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .load import Result

P99_NEEDS = 100  # below that a 99th percentile is one sample's luck


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which `share` of the values lie, between neighbours; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Latency:
    """n and percentiles in milliseconds; None where n does not carry it."""

    n: int
    p50_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Latency":
        """Over the observed values."""
        seen = [value for value in values if value is not None]
        p99 = percentile(seen, 0.99) if len(seen) >= P99_NEEDS else None
        return cls(len(seen), percentile(seen, 0.5), p99)


def first_content(results: Sequence[Result]) -> Latency:
    """Start to first content, over the good samples of several runs."""
    return Latency.of(s.ms_to("first_content") for r in results for s in r.good)


def first_byte(results: Sequence[Result]) -> Latency:
    """Start to first byte, over the good samples of several runs."""
    return Latency.of(s.ms_to("first_byte") for r in results for s in r.good)


def to_end(results: Sequence[Result]) -> Latency:
    """Start to the last byte, over the good samples of several runs."""
    return Latency.of(s.ms_to("ended") for r in results for s in r.good)


def rate(results: Sequence[Result]) -> float | None:
    """Good answers a second, over the time of all runs together."""
    seconds = sum(result.elapsed_s for result in results)
    return sum(len(result.good) for result in results) / seconds if seconds else None


def error_rate(results: Sequence[Result]) -> float | None:
    """The share of requests that failed."""
    total = sum(len(result.samples) for result in results)
    return 1 - sum(len(result.good) for result in results) / total if total else None


def errors(results: Sequence[Result]) -> dict[str, int]:
    """How many requests failed with each error."""
    counts: dict[str, int] = {}
    for result in results:
        for name, count in result.errors.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def less(value: float | None, base: float | None) -> float | None:
    """value - base where both were observed."""
    return None if value is None or base is None else value - base


def ratio(value: float | None, base: float | None) -> float | None:
    """value / base where both were observed."""
    return None if value is None or not base else value / base
