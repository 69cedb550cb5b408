"""Requests at instants drawn beforehand, whether or not the earlier ones have been answered.

A closed loop asks less of a server that answers slowly, and so hides what overload does. Latency
counts from the instant that a request was due, not from when it could be sent.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from .load import Connection, Plan, Sample


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request. `sample` is None where the client gave up before the answer had ended."""

    due_s: float  # of the monotonic clock
    sample: Sample | None

    @property
    def outcome(self) -> str:
        """answered, gave up, or what was wrong."""
        if self.sample is None:
            return "gave up"
        return self.sample.error or "answered"

    def first_content_s(self) -> float | None:
        """Seconds from the instant it was due to its first content."""
        at = self.sample.first_content if self.sample is not None else None
        return None if at is None else at - self.due_s


def poisson(rate_per_s: float, seconds: float, seed: int) -> list[float]:
    """Instants of a Poisson process, in seconds from its start; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - to be drawn again, not to be secret
    found, at = list[float](), random.expovariate(rate_per_s)
    while at < seconds:
        found.append(at)
        at += random.expovariate(rate_per_s)
    return found


async def run(url: str, plan: Plan, instants: Sequence[float], patience_s: float) -> list[Arrival]:
    """Send one request at each instant; a client gives up when `patience_s` have passed."""
    idle: list[Connection] = []
    start = time.monotonic()

    async def one(number: int, after_s: float) -> Arrival:
        await asyncio.sleep(start + after_s - time.monotonic())
        connection = idle.pop() if idle else Connection(url, plan)
        left_s = start + after_s + patience_s - time.monotonic()
        try:
            sample = await asyncio.wait_for(connection.ask(plan.body(number)), left_s)
        except TimeoutError:
            connection.close()
            return Arrival(start + after_s, None)
        idle.append(connection)
        return Arrival(start + after_s, sample)

    arrivals = await asyncio.gather(*(one(*each) for each in enumerate(instants)))
    for connection in idle:
        connection.close()
    return list(arrivals)
