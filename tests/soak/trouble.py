"""What fails during a soak: both Redis servers are killed and started, and the upstream too."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from fakes.upstream import UpstreamThread
from stack.whole import Whole

# How long after an outage a request may still meet its consequences.
AFTER_S = 1.5


@dataclass(slots=True)
class Trouble:
    """Breaks one thing after the other, each for a short time."""

    whole: Whole
    upstream: UpstreamThread
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    outages: list[tuple[str, float, float]] = field(default_factory=list)

    async def go_on(self, over: asyncio.Event) -> None:
        """Until the soak is over; nothing is left broken."""
        random = Random(self.seed)  # noqa: S311 - to be drawn again
        kinds: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "near store": (self.whole.near.kill, self.whole.near.start),
            "gate's Redis": (self.whole.redis.kill, self.whole.redis.start),
            "upstream": (self.upstream.down, self.upstream.up),
        }
        for turn in range(10**6):
            if await _over(over, random.uniform(0.3, 1.2)):
                return
            # The first three turns break one of each, so that a short soak meets all.
            name = list(kinds)[turn] if turn < len(kinds) else random.choice(list(kinds))
            breaks, mends = kinds[name]
            began_s = time.monotonic()
            await asyncio.to_thread(breaks)
            try:
                await _over(over, random.uniform(0.05, 0.6))
            finally:
                await asyncio.to_thread(mends)
            self.counts[name] += 1
            self.outages.append((name, began_s, time.monotonic() + AFTER_S))

    def met(self, name: str, began_s: float, ended_s: float) -> bool:
        """Whether an outage of that name touched the time between."""
        return any(
            each == name and first <= ended_s and began_s <= last
            for each, first, last in self.outages
        )


async def _over(over: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until it is over; whether it is."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return False
    return True
