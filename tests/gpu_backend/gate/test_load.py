"""Places at the engine, in made-up time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_backend.gate.answers import Overloaded, TooManyChoices
from gpu_backend.gate.load import Load, Seat
from gpu_backend.grant import BATCH, INTERACTIVE, NORMAL


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def fill(load: Load, count: int, tenant: str = "a", priority: int = INTERACTIVE) -> list[Seat]:
    return [load.take(tenant, priority, 1) for _ in range(count)]


def admitted(load: Load, tenant: str, priority: int = INTERACTIVE) -> int:
    """How many more of these get in."""
    count = 0
    while count < 100:
        try:
            load.take(tenant, priority, 1)
        except Overloaded:
            return count
        count += 1
    return count


@pytest.mark.parametrize(("priority", "expected"), [(BATCH, 4), (NORMAL, 6), (INTERACTIVE, 7)])
def test_the_waiting_room_is_for_those_who_wait(priority: int, expected: int) -> None:
    """Four seats and four places to wait, the last of them for a tenant with nothing yet."""
    assert expected == admitted(Load(4, 4, Clock()), "a", priority)


def test_the_last_place_is_for_a_newcomer() -> None:
    load = Load(4, 4, Clock())
    assert 7 == admitted(load, "a")
    assert 1 == admitted(load, "b")


def test_a_tenant_above_its_share_waits_for_a_seat_while_another_comes_in() -> None:
    load = Load(4, 4, Clock())
    fill(load, 1, "b")
    assert 4 == admitted(load, "a")
    assert 2 == admitted(load, "b")
    assert 1 == admitted(load, "c")


def test_more_choices_than_there_are_places_are_never_right() -> None:
    with pytest.raises(TooManyChoices):
        Load(2, 1, Clock()).take("a", INTERACTIVE, 4)


def test_a_request_for_which_there_is_never_room_runs_alone() -> None:
    load = Load(2, 1, Clock())
    seat = load.take("a", BATCH, 3)
    with pytest.raises(Overloaded):
        load.take("b", INTERACTIVE, 1)
    load.give_back(seat, served=True)
    fill(load, 1)
    with pytest.raises(Overloaded):
        load.take("a", BATCH, 3)


def test_a_seat_is_given_back_once() -> None:
    load = Load(2, 1, Clock())
    first, _ = fill(load, 2)
    load.give_back(first, served=True)
    load.give_back(first, served=True)
    assert 1 == load.in_flight


def test_the_header_tells_what_is_in_flight_and_how_fast_it_ends() -> None:
    clock = Clock()
    load = Load(2, 2, clock)
    seats = fill(load, 3)
    assert b"in_flight=3;capacity=4;seats=2;queued=1" == load.header()
    for seat in seats[:2]:
        load.give_back(seat, served=True)
    assert b"in_flight=1;capacity=4;seats=2;queued=0;drain=0.2" == load.header()
    clock.now_s += 10
    assert b"in_flight=1;capacity=4;seats=2;queued=0" == load.header()
    load.give_back(seats[2], served=True, tokens=155)
    assert b"in_flight=0;capacity=4;seats=2;queued=0;drain=0.1;speed=15.5" == load.header()


def refused(load: Load, priority: int = NORMAL) -> float:
    with pytest.raises(Overloaded) as caught:
        load.take("z", priority, 1)
    assert caught.value.retry_after_s is not None
    return caught.value.retry_after_s


def test_retry_after_follows_the_drain_rate() -> None:
    """Two ended in four busy seconds; a batch request needs one more seat than a full room has."""
    clock = Clock()
    load = Load(4, 2, clock)
    seats = fill(load, 4)
    clock.now_s += 4
    for seat in seats[:2]:
        load.give_back(seat, served=True)
    fill(load, 2, "b")
    fill(load, 1, "c")
    fill(load, 1, "d")
    assert 2.0 == pytest.approx(refused(load, INTERACTIVE))
    assert 6.0 == pytest.approx(refused(load, BATCH))


def test_without_an_end_yet_retry_after_is_as_long_again_as_the_oldest_has_run() -> None:
    clock = Clock()
    load = Load(1, 0, clock)
    fill(load, 1)
    assert 1.0 == refused(load)
    clock.now_s += 7
    assert 7.0 == refused(load)
    clock.now_s += 1000
    assert 60.0 == refused(load)


def test_idle_time_makes_no_engine_look_slow() -> None:
    clock = Clock()
    load = Load(1, 0, clock)
    (seat,) = fill(load, 1)
    clock.now_s += 1
    load.give_back(seat, served=True)
    clock.now_s += 8
    fill(load, 1)
    clock.now_s += 1
    assert 1.0 == refused(load)


def test_refusals_of_the_engine_do_not_count_as_drain() -> None:
    load = Load(2, 1, Clock())
    (seat,) = fill(load, 1)
    load.give_back(seat, served=False)
    assert load.drain_per_s() is None


def test_the_decode_speed_is_learnt_from_what_ended() -> None:
    clock = Clock()
    load = Load(2, 1, clock)
    (seat,) = fill(load, 1)
    clock.now_s += 2
    load.give_back(seat, served=True, tokens=100)
    assert 50.0 == load.tokens_per_s


requests = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 4), st.booleans()),
    max_size=60,
)


@given(requests)
def test_no_order_of_requests_takes_more_places_than_there_are(
    asked: list[tuple[str, int, int, bool]],
) -> None:
    """And a free seat is refused to nobody."""
    load = Load(5, 3, Clock())
    seats: list[Seat] = []
    for tenant, priority, choices, ends in asked:
        free = load.in_flight + choices <= load.max_running
        try:
            seats.append(load.take(tenant, priority, choices))
        except Overloaded:
            assert not free
        assert load.in_flight == sum(seat.places for seat in seats) <= load.capacity
        if ends and seats:
            load.give_back(seats.pop(0), served=True)
