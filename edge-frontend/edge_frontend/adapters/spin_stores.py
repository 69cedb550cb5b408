"""Store port on Spin: its key-value store, and its Redis client.

A key-value store has no expiry and no conditional write: a value carries the millisecond it expires
at, and a claim is written and read back, which two requests in the same millisecond may both win.
Each operation is a round trip to the store of the host.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from .. import redis_commands as commands
from .. import resp
from ..errors import StoreDown
from ..ports import Add, Claim, Delete, Get, Operation, Put, Renew, Result, Slice, Spend

_EXPIRY = struct.Struct("<Q")


class KeyValue(Protocol):
    """What this adapter asks of spin:key-value's Store."""

    async def get(self, key: str) -> bytes | None: ...
    async def set(self, key: str, value: bytes) -> None: ...
    async def delete(self, key: str) -> None: ...


class Redis(Protocol):
    """What this adapter asks of spin:redis: one command, its reply as in `resp`."""

    async def execute(self, parts: tuple[bytes, ...]) -> resp.Value: ...


class SpinRedis:
    """The operations over the host's Redis client, one round trip each."""

    def __init__(self, redis: Redis, failure: type[Exception]) -> None:
        self._redis, self._failure = redis, failure

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        results: list[Result] = []
        try:
            for operation in operations:
                reply = await self._redis.execute(commands.parts(operation))
                results.append(commands.result(operation, reply))
        except self._failure as error:
            raise StoreDown("The store failed.") from error
        return results, len(operations)


class SpinKeyValue:
    """The operations over an open key-value store; `wall_s` dates the expiry."""

    def __init__(
        self, store: KeyValue, wall_s: Callable[[], float], failure: type[Exception]
    ) -> None:
        self._store, self._wall_s, self._failure = store, wall_s, failure
        self._trips = 0

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        before = self._trips
        try:
            results = [await self._perform(operation) for operation in operations]
        except self._failure as error:
            raise StoreDown("The store failed.") from error
        return results, self._trips - before

    async def _perform(self, operation: Operation) -> Result:
        key = operation.key
        match operation:
            case Get():
                return await self._get(key)
            case Slice(start=start):
                return (await self._get(key) or b"")[start:]
            case Put(value=value, ttl_ms=ttl_ms):
                return await self._set(key, value, ttl_ms)
            case Add(amount=amount, ttl_ms=ttl_ms):
                total = _whole(await self._get(key) or b"0") + amount
                return await self._set(key, b"%d" % total, ttl_ms)
            case Spend():
                return await self._spend(operation)
            case Claim():
                return await self._claim(operation)
            case Renew(value=value, ttl_ms=ttl_ms):
                is_ours = await self._get(key) == value
                return is_ours and await self._set(key, value, ttl_ms)
            case Delete(value=value):
                return await self._delete(key, value)

    async def _claim(self, claim: Claim) -> bool:
        for key in (claim.key, claim.unless):
            if await self._get(key) is not None:
                return False
        await self._set(claim.key, claim.value, claim.ttl_ms)
        return await self._get(claim.key) == claim.value

    async def _spend(self, spend: Spend) -> int | None:
        """As the port has it, by a list of milliseconds."""
        if spend.given and await self._get(spend.given) is None:
            return None
        now_ms = int(self._wall_s() * 1000)
        listed = (await self._get(spend.key) or b"").split()
        events = [at for at in map(_whole, listed) if at > now_ms - spend.window_ms]
        if len(events) >= spend.most:
            first = events[len(events) - spend.most] if spend.most else now_ms
            return max(1, first + spend.window_ms - now_ms)
        events.append(now_ms)
        await self._set(spend.key, b" ".join(b"%d" % at for at in events), spend.window_ms)
        return 0

    async def _delete(self, key: str, value: bytes | None) -> bool:
        held = await self._get(key)
        if held is None or value not in (None, held):
            return False
        self._trips += 1
        await self._store.delete(key)
        return True

    async def _get(self, key: str) -> bytes | None:
        self._trips += 1
        stored = await self._store.get(key)
        if stored is None or len(stored) < _EXPIRY.size:
            return None
        (expires_ms,) = _EXPIRY.unpack_from(stored)
        return stored[_EXPIRY.size :] if expires_ms > self._wall_s() * 1000 else None

    async def _set(self, key: str, value: bytes, ttl_ms: int) -> bool:
        self._trips += 1
        expires_ms = int(self._wall_s() * 1000) + ttl_ms
        await self._store.set(key, _EXPIRY.pack(expires_ms) + value)
        return True


def _whole(value: bytes) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise StoreDown("The store holds something else than a number.") from error
