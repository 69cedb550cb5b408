"""Clock port over wasi:clocks 0.3: the event loop of a component has no timers of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import componentize_py_async_support as tasks
import componentize_py_runtime as runtime
from spin_sdk.wit.imports import wasi_clocks_monotonic_clock_0_3_0 as monotonic
from spin_sdk.wit.imports import wasi_clocks_system_clock_0_3_0 as system


class WasiClock:
    """The host's monotonic and wall clocks."""

    def now_ms(self) -> float:
        return monotonic.now() / 1e6

    def wall_s(self) -> float:
        instant = system.now()
        return float(instant.seconds) + float(instant.nanoseconds) / 1e9

    async def sleep_ms(self, duration_ms: float) -> None:
        await monotonic.wait_for(int(duration_ms * 1e6))


async def within[T](work: Coroutine[Any, Any, T], limit_ms: float) -> T:
    """Await work for at most so long.

    The component model's waits cannot be cancelled from Python, so what is still waiting at the
    limit is let go of: its events go nowhere and end with the instance.

    Raises:
        TimeoutError: when the limit came first; the work stays where it was.
    """
    working = asyncio.ensure_future(work)
    timer = monotonic.wait_for(int(limit_ms * 1e6))
    alarm: asyncio.Future[Any] = timer.send(None)
    alarm._asyncio_future_blocking = False  # the coroutine is not driven by a task
    await asyncio.wait((working, alarm), return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        timer.close()
        raise TimeoutError
    if not alarm.done():
        _let_go(alarm)
    timer.close()
    return working.result()


def let_go_of_all() -> None:
    """Let go of everything this task still waits for."""
    for future in list(_waits().values()):
        _let_go(future)


def _let_go(waited: asyncio.Future[Any]) -> None:
    waits = _waits()
    for waitable, future in list(waits.items()):
        if future is waited:
            del waits[waitable]
            runtime.waitable_join(waitable, 0)


def _waits() -> dict[int, Any]:
    return tasks._future_state.get().futures
