"""Clock port over the process's own clocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlainAlarm:
    """A call of the event loop that is to come."""

    handle: asyncio.TimerHandle

    def let_go(self) -> None:
        self.handle.cancel()


class PlainClock:
    """The monotonic and wall clocks of this machine."""

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def wall_s(self) -> float:
        return time.time()

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def after_ms(self, duration_ms: float, then: Callable[[], None]) -> PlainAlarm:
        return PlainAlarm(asyncio.get_running_loop().call_later(duration_ms / 1000, then))
