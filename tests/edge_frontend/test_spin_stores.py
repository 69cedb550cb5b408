"""Spin's stores over stand-ins in memory keep the contract of all stores.

The stand-ins are fakes of what the host gives: Spin is on no registry. A real Redis and real hosts
run the same checks elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract import store as contract
from edge_frontend import redis_commands, resp
from edge_frontend.adapters.spin_stores import SpinKeyValue, SpinRedis
from edge_frontend.errors import StoreDown
from edge_frontend.ports import (
    Add,
    Claim,
    Delete,
    Get,
    Operation,
    Put,
    Renew,
    Slice,
    Spend,
    Store,
    Unspend,
)
from fakes.edge import MemoryStore, VirtualClock, run


class HostError(Exception):
    """How the stand-ins fail, as componentize-py's Err is how the host does."""


class KeyValue:
    """spin:key-value's Store in memory: no expiry, no conditional write."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.calls = 0
        self.failing = False

    async def get(self, key: str) -> bytes | None:
        self._called()
        return self.values.get(key)

    async def set(self, key: str, value: bytes) -> None:
        self._called()
        self.values[key] = value

    async def delete(self, key: str) -> None:
        self._called()
        self.values.pop(key, None)

    def _called(self) -> None:
        self.calls += 1
        if self.failing:
            raise HostError


class Redis:
    """A Redis in memory that knows the commands and scripts of `redis_commands`, by their text."""

    def __init__(self, clock: VirtualClock) -> None:
        self._store = MemoryStore(clock)
        self.calls = 0
        self.answer: Callable[[], resp.Value] | None = None

    async def execute(self, parts: tuple[bytes, ...]) -> resp.Value:
        self.calls += 1
        if self.answer is not None:
            return self.answer()
        name, *arguments = parts
        if name == b"EVAL":
            return self._eval(arguments)
        key = arguments[0].decode()
        match name, arguments[1:]:
            case b"GET", []:
                return self._store.peek(key)
            case b"GETRANGE", [start, b"-1"]:
                return (self._store.peek(key) or b"")[int(start) :]
            case b"SET", [value, b"PX", ttl_ms]:
                self._store.put(key, value, int(ttl_ms))
                return b"OK"
            case b"ZREM", [event]:
                return int(self._store._perform(Unspend(key, event.decode())) is True)
            case b"DEL", []:
                return int(self._store._perform(Delete(key)) is True)
        raise AssertionError(f"unknown command {name!r}")

    def _eval(self, arguments: list[bytes]) -> resp.Value:
        script, count, *rest = arguments
        keys = [key.decode() for key in rest[: int(count)]]
        values = rest[int(count) :]
        if script == redis_commands._CLAIM:
            done = self._store._perform(Claim(keys[0], values[0], int(values[1]), unless=keys[1]))
        elif script == redis_commands._RENEW:
            done = self._store._perform(Renew(keys[0], values[0], int(values[1])))
        elif script == redis_commands._ADD:
            try:
                done = self._store._perform(Add(keys[0], int(values[0]), int(values[1])))
            except StoreDown:
                return resp.RespError("ERR value is not an integer or out of range")
        elif script == redis_commands._SPEND:
            event, most, window_ms = values
            spend = Spend(keys[0], event.decode(), int(most), int(window_ms))
            counted = self._store._perform(spend)
            assert isinstance(counted, int)
            return counted
        else:
            assert script == redis_commands._DELETE
            done = self._store._perform(Delete(keys[0], values[0]))
        return int(done is True)


def make_key_value(clock: VirtualClock) -> Store:
    return SpinKeyValue(KeyValue(), clock.wall_s, HostError)


def make_redis(clock: VirtualClock) -> Store:
    return SpinRedis(Redis(clock), HostError)


EVERYWHERE = [make_key_value, make_redis]


@pytest.mark.parametrize("make", EVERYWHERE)
@pytest.mark.parametrize("check", contract.CHECKS)
def test_the_store_keeps_the_contract(
    make: Callable[[VirtualClock], Store], check: contract.Check
) -> None:
    clock = VirtualClock()

    async def checked() -> None:
        await check(make(clock), clock, "contract:1")

    run(checked())


@pytest.mark.parametrize("check", contract.ATOMIC)
def test_a_store_with_conditional_writes_loses_no_race(check: contract.Check) -> None:
    clock = VirtualClock()

    async def checked() -> None:
        await check(make_redis(clock), clock, "contract:1")

    run(checked())


def test_a_failing_key_value_store_is_a_store_that_is_down() -> None:
    host = KeyValue()
    host.failing = True
    with pytest.raises(StoreDown):
        run(SpinKeyValue(host, VirtualClock().wall_s, HostError).batch([Get("a")]))


def test_every_call_of_the_key_value_store_is_a_round_trip() -> None:
    host = KeyValue()
    operations: list[Operation] = [
        Put("a", b"1", 1_000),
        Get("a"),
        Slice("a", 0),
        Claim("b", b"1", 1_000, unless="c"),
        Renew("b", b"1", 1_000),
        Delete("b", b"1"),
    ]
    _, trips = run(SpinKeyValue(host, VirtualClock().wall_s, HostError).batch(operations))
    assert host.calls == trips


def test_a_key_value_entry_that_is_not_ours_is_no_value() -> None:
    host = KeyValue()
    host.values |= {"short": b"abc", "empty": b""}
    store = SpinKeyValue(host, VirtualClock().wall_s, HostError)
    assert ([None, None], 2) == run(store.batch([Get("short"), Get("empty")]))


@pytest.mark.parametrize("reply", [resp.RespError("OOM command not allowed"), [b"1"], 1.5, {}])
def test_a_reply_of_redis_in_another_shape_is_a_store_that_is_down(reply: resp.Value) -> None:
    host = Redis(VirtualClock())
    host.answer = lambda: reply
    with pytest.raises(StoreDown) as caught:
        run(SpinRedis(host, HostError).batch([Get("a")]))
    assert "OOM" not in caught.value.message


def test_a_failing_redis_is_a_store_that_is_down() -> None:
    def fail() -> resp.Value:
        raise HostError

    host = Redis(VirtualClock())
    host.answer = fail
    with pytest.raises(StoreDown):
        run(SpinRedis(host, HostError).batch([Put("a", b"1", 1)]))
