"""The aims that the edge is built to, each with the figure that says whether it is reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on one figure of one row."""

    text: str
    part: str
    target: str
    streams: int
    figure: str
    reached: Callable[[float], bool]
    unit: str = ""

    def cells(self, rows: Sequence[Row]) -> tuple[str, str, str] | None:
        """The aim, what was measured, and yes or no; None where that part was not measured."""
        own = (self.part, self.target, self.streams)
        for row in rows:
            if own == (row["part"], row["target"], row["streams"]):
                value = row[self.figure]
                if value is None:
                    return self.text, "not available", "-"
                return self.text, f"{value:.2f}{self.unit}", "yes" if self.reached(value) else "no"
        return None


AIMS = (
    Aim(
        "first content, added at p50 with 64 streams: at most 1.5 ms",
        *("paced", "edge", 64, "added_p50_ms", lambda value: value <= 1.5, " ms"),
    ),
    Aim(
        "saturation, streams a second beside vllm-router's: at least 0.3",
        *("saturation", "edge", 64, "ratio_to_router", lambda value: value >= 0.3),
    ),
    Aim(
        "cache hits a second beside a bare component's requests: at least 0.5",
        *("cache", "edge", 8, "ratio_to_hello", lambda value: value >= 0.5),
    ),
    Aim(
        "a new instance for every request, added at p50: at most 1.5 ms",
        *("fresh", "edge-fresh", 1, "added_p50_ms", lambda value: value <= 1.5, " ms"),
    ),
    Aim(
        "memory with 64 open streams: under 128 MiB",
        *("memory", "edge", 64, "pss_most_mib", lambda value: value < 128, " MiB"),
    ),
)
