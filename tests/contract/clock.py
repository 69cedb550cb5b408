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


async def an_alarm_rings_once_and_not_before_its_time(clock: Clock) -> None:
    before_ms, rung = clock.now_ms(), list[float]()
    clock.after_ms(20, lambda: rung.append(clock.now_ms()))
    assert not rung
    await clock.sleep_ms(100)
    assert len(rung) == 1, rung
    assert rung[0] - before_ms >= 20 - 0.001


async def an_alarm_that_was_let_go_does_not_ring(clock: Clock) -> None:
    rung = list[int]()
    one, other = (clock.after_ms(20, lambda n=n: rung.append(n)) for n in (1, 2))  # type: ignore[misc]
    one.let_go()
    await clock.sleep_ms(100)
    assert rung == [2], rung
    other.let_go()
    other.let_go()


async def alarms_ring_by_their_time(clock: Clock) -> None:
    rung = list[int]()
    clock.after_ms(60, lambda: rung.append(60))
    clock.after_ms(10, lambda: rung.append(10))
    await clock.sleep_ms(200)
    assert rung == [10, 60], rung


async def the_wall_clock_is_set_and_goes_on(clock: Clock) -> None:
    before_s = clock.wall_s()
    assert before_s > _2026_S
    await clock.sleep_ms(20)
    assert clock.wall_s() > before_s


CHECKS: tuple[Check, ...] = (
    time_does_not_run_backwards,
    a_sleep_lasts_at_least_as_long_as_asked,
    sleeps_run_beside_each_other,
    an_alarm_rings_once_and_not_before_its_time,
    an_alarm_that_was_let_go_does_not_ring,
    alarms_ring_by_their_time,
    the_wall_clock_is_set_and_goes_on,
)
