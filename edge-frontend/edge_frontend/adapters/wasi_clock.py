"""Clock port over wasi:clocks 0.3: the event loop of a component has no timers of its own."""

from __future__ import annotations

from collections.abc import Callable

from spin_sdk.wit.imports import wasi_clocks_monotonic_clock_0_3_0 as monotonic
from spin_sdk.wit.imports import wasi_clocks_system_clock_0_3_0 as system

from .waits import Alarm


class WasiClock:
    """The host's monotonic and wall clocks."""

    def now_ms(self) -> float:
        return monotonic.now() / 1e6

    def wall_s(self) -> float:
        instant = system.now()
        return float(instant.seconds) + float(instant.nanoseconds) / 1e9

    async def sleep_ms(self, duration_ms: float) -> None:
        await monotonic.wait_for(int(duration_ms * 1e6))

    def after_ms(self, duration_ms: float, then: Callable[[], None]) -> Alarm:
        return Alarm(duration_ms, then)
