"""What every clock must do; see `store` for the form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from edge_frontend.ports import Clock

# Facts were checked late in 2026; a host whose wall clock lies before that has none.
_2026_S = 1_767_225_600

Check = Callable[[Clock], Awaitable[None]]


async def time_does_not_run_backwards(clock: Clock) -> None:
    instants = [clock.now_ms() for _ in range(100)]
    assert instants == sorted(instants)


async def a_sleep_lasts_at_least_as_long_as_asked(clock: Clock) -> None:
    for duration_ms in (0, 0.5, 20):
        before_ms = clock.now_ms()
        await clock.sleep_ms(duration_ms)
        # A microsecond less is the rounding of a float that counts years in milliseconds.
        assert clock.now_ms() - before_ms >= duration_ms - 0.001


async def sleeps_run_beside_each_other(clock: Clock) -> None:
    before_ms = clock.now_ms()
    await asyncio.gather(*(clock.sleep_ms(100) for _ in range(5)))
    assert clock.now_ms() - before_ms < 400


async def the_wall_clock_is_set_and_goes_on(clock: Clock) -> None:
    before_s = clock.wall_s()
    assert before_s > _2026_S
    await clock.sleep_ms(20)
    assert clock.wall_s() > before_s


CHECKS: tuple[Check, ...] = (
    time_does_not_run_backwards,
    a_sleep_lasts_at_least_as_long_as_asked,
    sleeps_run_beside_each_other,
    the_wall_clock_is_set_and_goes_on,
)
