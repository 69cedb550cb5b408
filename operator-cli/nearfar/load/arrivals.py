"""When requests of an open loop are due, in seconds from the beginning of the load.

An open loop sends when a request is due, whatever is still in flight. A closed loop asks less of a
server that answers slowly, and so hides what overload does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from nearfar.errors import BadInput

Process = Literal["poisson", "constant", "burst", "ramp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A process, and where it ends: after so many requests, so many seconds, or the first of both.

    poisson   independent arrivals at `rate_per_s`
    constant  one every 1 / `rate_per_s`
    burst     `burst_size` at once; the bursts are a Poisson process, so that the mean rate holds
    ramp      Poisson, the rate growing evenly from `rate_per_s` to `ramp_to_per_s` over
              `duration_s`
    """

    process: Process
    rate_per_s: float
    requests: int | None = None
    duration_s: float | None = None
    burst_size: int = 1
    ramp_to_per_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s < math.inf:
            raise BadInput("The rate is not above 0.", "pass --rate in requests a second.")
        if self.requests is None and self.duration_s is None:
            raise BadInput("The load has no end.", "pass --requests or --duration.")
        if self.process == "ramp" and not (self.ramp_to_per_s and self.duration_s):
            raise BadInput(
                "A ramp needs the rate at its end and its length.", "pass --ramp-to and --duration."
            )
        if self.burst_size < 1:
            raise BadInput("A burst holds no request.", "pass --burst-size of 1 or more.")

    def instants(self) -> Iterator[float]:
        """Give the instants in order; the same for the same seed."""
        random = Random(self.seed)  # noqa: S311 - to be drawn again, not to be secret
        endless = {
            "poisson": self._poisson,
            "constant": self._constant,
            "burst": self._burst,
            "ramp": self._ramp,
        }[self.process](random)
        bounded = itertools.islice(endless, self.requests)
        end_s = math.inf if self.duration_s is None else self.duration_s
        return itertools.takewhile(lambda at: at < end_s, bounded)

    def _poisson(self, random: Random) -> Iterator[float]:
        at = 0.0
        while True:
            at += random.expovariate(self.rate_per_s)
            yield at

    def _constant(self, _random: Random) -> Iterator[float]:
        return (number / self.rate_per_s for number in itertools.count())

    def _burst(self, random: Random) -> Iterator[float]:
        at = 0.0
        while True:
            for _ in range(self.burst_size):
                yield at
            at += random.expovariate(self.rate_per_s / self.burst_size)

    def _ramp(self, random: Random) -> Iterator[float]:
        """Invert the expected count so far, rate·t + slope·t²/2, at a unit Poisson process."""
        assert self.ramp_to_per_s is not None  # noqa: S101 - __post_init__ checks both
        assert self.duration_s is not None  # noqa: S101
        slope = (self.ramp_to_per_s - self.rate_per_s) / self.duration_s
        count = 0.0
        while True:
            count += random.expovariate(1.0)
            if abs(slope) < 1e-12:
                yield count / self.rate_per_s
                continue
            root = self.rate_per_s**2 + 2 * slope * count
            if root < 0:  # a falling ramp has given all that it holds
                return
            yield (math.sqrt(root) - self.rate_per_s) / slope


def traced(instants: Sequence[float], *, speed: float = 1.0) -> tuple[float, ...]:
    """Return a recorded trace's instants from zero; `speed` 2 makes it twice as fast."""
    first = min(instants, default=0.0)
    return tuple(sorted((at - first) / speed for at in instants))
