"""What every near store must do. Each check gets a store, a clock and a prefix nobody else uses.

Plain assertions and no test framework, since the same checks run inside the component, on each
host. `ATOMIC` holds what only a store with conditional writes can promise.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from edge_frontend.errors import StoreDown
from edge_frontend.ports import (
    Add,
    Claim,
    Clock,
    Delete,
    Get,
    Operation,
    Put,
    Renew,
    Result,
    Slice,
    Spend,
    Store,
    Unspend,
)

LONG_MS = 60_000
SHORT_MS = 80  # long enough that a busy machine does not see a value expire before it is asked for
EVERY_BYTE = bytes(range(256))
_EVENTS = itertools.count()

Check = Callable[[Store, Clock, str], Awaitable[None]]


async def ask(store: Store, *operations: Operation) -> list[Result]:
    """The results of one batch, which took at least one round trip."""
    results, trips = await store.batch(operations)
    assert len(operations) == len(results), "one result for each operation"
    assert trips >= 1, "a batch takes a round trip"
    return results


async def one(store: Store, operation: Operation) -> Result:
    """The result of one operation."""
    (result,) = await ask(store, operation)
    return result


async def what_was_put_is_read(store: Store, clock: Clock, name: str) -> None:
    assert await one(store, Get(name)) is None
    assert await one(store, Put(name, EVERY_BYTE, LONG_MS)) is True
    assert await one(store, Get(name)) == EVERY_BYTE
    assert await one(store, Put(name, b"", LONG_MS)) is True
    assert await one(store, Get(name)) == b""


async def a_large_value_survives(store: Store, clock: Clock, name: str) -> None:
    value = EVERY_BYTE * 3_900  # just under what an edge key-value store takes
    await one(store, Put(name, value, LONG_MS))
    assert await one(store, Get(name)) == value
    await one(store, Delete(name))


async def keys_are_apart(store: Store, clock: Clock, name: str) -> None:
    await ask(store, Put(f"{name}:a", b"1", LONG_MS), Put(f"{name}:b", b"2", LONG_MS))
    assert await ask(store, Get(f"{name}:b"), Get(f"{name}:a")) == [b"2", b"1"]


async def a_batch_is_done_in_order(store: Store, clock: Clock, name: str) -> None:
    results = await ask(
        store,
        Get(name),
        Put(name, b"ab", LONG_MS),
        Put(name, b"cde", LONG_MS),
        Slice(name, 1),
        Delete(name),
        Get(name),
    )
    assert results == [None, True, True, b"de", True, None]


async def a_value_expires(store: Store, clock: Clock, name: str) -> None:
    await ask(
        store,
        Put(f"{name}:put", b"1", SHORT_MS),
        Claim(f"{name}:claim", b"1", SHORT_MS, unless=f"{name}:none"),
        Put(f"{name}:long", b"1", LONG_MS),
    )
    await clock.sleep_ms(SHORT_MS * 1.5)
    gets = [Get(f"{name}:{kind}") for kind in ("put", "claim", "long")]
    assert await ask(store, *gets) == [None, None, b"1"]


async def writing_again_lets_a_value_live_on(store: Store, clock: Clock, name: str) -> None:
    await ask(
        store,
        Put(f"{name}:put", b"1", SHORT_MS),
        Put(f"{name}:renew", b"1", SHORT_MS),
    )
    await ask(
        store,
        Put(f"{name}:put", b"2", LONG_MS),
        Renew(f"{name}:renew", b"1", LONG_MS),
    )
    await clock.sleep_ms(SHORT_MS * 1.5)
    gets = [Get(f"{name}:{kind}") for kind in ("put", "renew")]
    assert await ask(store, *gets) == [b"2", b"1"]


async def a_slice_is_what_follows_its_start(store: Store, clock: Clock, name: str) -> None:
    assert await one(store, Slice(name, 0)) == b""
    assert await one(store, Slice(name, 5)) == b""
    await one(store, Put(name, b"\x00abc\xffdef", LONG_MS))
    slices = [Slice(name, start) for start in (0, 3, 7, 8, 100)]
    assert await ask(store, *slices) == [b"\x00abc\xffdef", b"c\xffdef", b"f", b"", b""]


async def the_first_claim_wins(store: Store, clock: Clock, name: str) -> None:
    other = f"{name}:other"
    assert await one(store, Claim(name, b"first", LONG_MS, unless=other)) is True
    assert await one(store, Claim(name, b"second", LONG_MS, unless=other)) is False
    assert await one(store, Get(name)) == b"first"


async def nothing_is_claimed_beside_what_forbids_it(store: Store, clock: Clock, name: str) -> None:
    other = f"{name}:other"
    await one(store, Put(other, b"", LONG_MS))
    assert await one(store, Claim(name, b"1", LONG_MS, unless=other)) is False
    assert await one(store, Get(name)) is None
    await one(store, Delete(other))
    assert await one(store, Claim(name, b"1", LONG_MS, unless=other)) is True


async def what_expired_can_be_claimed_again(store: Store, clock: Clock, name: str) -> None:
    other = f"{name}:other"
    await ask(store, Claim(name, b"first", SHORT_MS, unless=other), Put(other, b"1", SHORT_MS))
    await clock.sleep_ms(SHORT_MS * 1.5)
    assert await one(store, Renew(name, b"first", LONG_MS)) is False
    assert await one(store, Claim(name, b"second", LONG_MS, unless=other)) is True
    assert await one(store, Get(name)) == b"second"


async def only_the_same_value_is_renewed(store: Store, clock: Clock, name: str) -> None:
    assert await one(store, Renew(name, b"1", LONG_MS)) is False
    assert await one(store, Get(name)) is None
    await one(store, Put(name, b"1", LONG_MS))
    assert await ask(store, Renew(name, b"2", LONG_MS), Renew(name, b"1", LONG_MS)) == [False, True]
    assert await one(store, Get(name)) == b"1"


async def only_the_same_value_is_deleted(store: Store, clock: Clock, name: str) -> None:
    assert await ask(store, Delete(name), Delete(name, b"1")) == [False, False]
    await one(store, Put(name, b"1", LONG_MS))
    assert await one(store, Delete(name, b"2")) is False
    assert await one(store, Get(name)) == b"1"
    assert await one(store, Delete(name, b"1")) is True
    assert await one(store, Get(name)) is None
    await one(store, Put(name, b"1", LONG_MS))
    assert await one(store, Delete(name)) is True
    assert await one(store, Get(name)) is None


async def batches_at_the_same_time_do_not_mix(store: Store, clock: Clock, name: str) -> None:
    async def own(number: int) -> None:
        key, value = f"{name}:{number}", b"%d" % number * 1_000
        put = Put(key, value, LONG_MS)
        assert await ask(store, put, Get(key)) == [True, value]

    await asyncio.gather(*(own(number) for number in range(8)))


async def one_of_many_claims_wins(store: Store, clock: Clock, name: str) -> None:
    tokens = [b"token %d" % number for number in range(8)]
    claims = [Claim(name, token, LONG_MS, unless=f"{name}:other") for token in tokens]
    won = await asyncio.gather(*(one(store, claim) for claim in claims))
    assert sorted(map(bool, won)) == [False] * 7 + [True], won
    assert await one(store, Get(name)) == tokens[won.index(True)]


async def what_is_added_is_the_sum(store: Store, clock: Clock, name: str) -> None:
    assert await one(store, Add(name, 5, LONG_MS)) is True
    assert await one(store, Get(name)) == b"5"
    adds = [Add(name, amount, LONG_MS) for amount in (0, 10**12, -6)]
    assert await ask(store, *adds, Get(name)) == [True, True, True, b"999999999999"]
    assert await ask(store, Add(name, -(10**12), LONG_MS), Get(name)) == [True, b"-1"]
    await one(store, Put(name, b"40", LONG_MS))
    assert await ask(store, Add(name, 2, LONG_MS), Get(name)) == [True, b"42"]


async def a_sum_lives_from_its_last_addition(store: Store, clock: Clock, name: str) -> None:
    await ask(
        store,
        Add(f"{name}:short", 1, SHORT_MS),
        Add(f"{name}:long", 1, SHORT_MS),
        Add(f"{name}:long", 1, LONG_MS),
    )
    await clock.sleep_ms(SHORT_MS * 1.5)
    assert await ask(store, Get(f"{name}:short"), Get(f"{name}:long")) == [None, b"2"]
    assert await ask(store, Add(f"{name}:short", 7, LONG_MS), Get(f"{name}:short")) == [True, b"7"]


async def what_is_no_number_takes_no_addition(store: Store, clock: Clock, name: str) -> None:
    await one(store, Put(name, b"seven", LONG_MS))
    try:
        await one(store, Add(name, 1, LONG_MS))
    except StoreDown:
        pass
    else:
        raise AssertionError("an addition to a text was taken")
    assert await one(store, Get(name)) == b"seven"


def spends(name: str, most: int, window_ms: int = LONG_MS, count: int = 1) -> list[Spend]:
    """So many events of different names."""
    return [Spend(name, f"event-{next(_EVENTS)}", most, window_ms) for _ in range(count)]


async def no_more_is_spent_than_there_is(store: Store, clock: Clock, name: str) -> None:
    assert await ask(store, *spends(name, 3, count=3)) == [-2, -1, 0], "as many are left"
    waits = await ask(store, *spends(name, 3, count=2))
    assert all(type(wait) is int and LONG_MS - 5_000 < wait <= LONG_MS for wait in waits), waits
    assert await ask(store, *spends(f"{name}:none", 0)) == [LONG_MS]
    assert await ask(store, *spends(name, 4)) == [0], "what was refused was not counted"


async def what_was_spent_comes_back_after_the_window(store: Store, clock: Clock, name: str) -> None:
    assert await ask(store, *spends(name, 2, SHORT_MS)) == [-1]
    await clock.sleep_ms(SHORT_MS / 2)
    assert await ask(store, *spends(name, 2, SHORT_MS)) == [0]
    (wait_ms,) = await ask(store, *spends(name, 2, SHORT_MS))
    assert type(wait_ms) is int, "the first of the two has gone"
    assert 1 <= wait_ms <= SHORT_MS / 2 + 1
    await clock.sleep_ms(wait_ms + 1)
    assert await ask(store, *spends(name, 2, SHORT_MS)) == [0]


async def what_is_given_back_may_be_spent_again(store: Store, clock: Clock, name: str) -> None:
    first, second, third = spends(name, 2, count=3)
    assert await one(store, Unspend(name, first.event)) is False
    assert await ask(store, first, second) == [-1, 0]
    assert await one(store, Unspend(name, third.event)) is False
    assert await one(store, Unspend(name, first.event)) is True
    assert await one(store, Unspend(name, first.event)) is False
    assert await one(store, third) == 0
    (wait_ms,) = await ask(store, *spends(name, 2))
    assert type(wait_ms) is int
    assert wait_ms > 0, "the other one still counts"


async def every_addition_at_the_same_time_counts(store: Store, clock: Clock, name: str) -> None:
    await asyncio.gather(*(one(store, Add(name, number, LONG_MS)) for number in range(8)))
    assert await one(store, Get(name)) == b"28"


async def no_more_is_spent_at_the_same_time(store: Store, clock: Clock, name: str) -> None:
    results = await asyncio.gather(*(one(store, each) for each in spends(name, 3, count=8)))
    counted = [result for result in results if type(result) is int and result <= 0]
    assert sorted(counted) == [-2, -1, 0], results


CHECKS: tuple[Check, ...] = (
    what_was_put_is_read,
    a_large_value_survives,
    keys_are_apart,
    a_batch_is_done_in_order,
    a_value_expires,
    writing_again_lets_a_value_live_on,
    a_slice_is_what_follows_its_start,
    the_first_claim_wins,
    nothing_is_claimed_beside_what_forbids_it,
    what_expired_can_be_claimed_again,
    only_the_same_value_is_renewed,
    only_the_same_value_is_deleted,
    batches_at_the_same_time_do_not_mix,
    what_is_added_is_the_sum,
    a_sum_lives_from_its_last_addition,
    what_is_no_number_takes_no_addition,
    no_more_is_spent_than_there_is,
    what_was_spent_comes_back_after_the_window,
    what_is_given_back_may_be_spent_again,
)
ATOMIC: tuple[Check, ...] = (
    one_of_many_claims_wins,
    every_addition_at_the_same_time_counts,
    no_more_is_spent_at_the_same_time,
)
