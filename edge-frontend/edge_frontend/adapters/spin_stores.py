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
from ..ports import Add, Claim, Delete, Get, Operation, Put, Renew, Result, Slice, Spend, Unspend

_EXPIRY = struct.Struct("<Q")
_UNSPENT_MS = 60_000


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
            case Unspend():
                return await self._unspend(operation)
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

    async def _spend(self, spend: Spend) -> int:
        """As the port has it, by a list of milliseconds and names."""
        now_ms = int(self._wall_s() * 1000)
        events = [
            each for each in await self._events(spend.key) if each[0] > now_ms - spend.window_ms
        ]
        if len(events) >= spend.most:
            first_ms = events[len(events) - spend.most][0] if spend.most else now_ms
            return max(1, first_ms + spend.window_ms - now_ms)
        await self._keep(spend.key, [*events, (now_ms, spend.event.encode())], spend.window_ms)
        return len(events) + 1 - spend.most

    async def _unspend(self, unspend: Unspend) -> bool:
        events = await self._events(unspend.key)
        left = [each for each in events if each[1] != unspend.event.encode()]
        if len(left) == len(events):
            return False
        # As long as the newest may count: the window is not known here, and is no longer than this.
        return await self._keep(unspend.key, left, _UNSPENT_MS)

    async def _events(self, key: str) -> list[tuple[int, bytes]]:
        """Each event's millisecond and name, the oldest first."""
        pairs = [pair.partition(b":") for pair in (await self._get(key) or b"").split()]
        return [(_whole(at), name) for at, _, name in pairs]

    async def _keep(self, key: str, events: list[tuple[int, bytes]], ttl_ms: int) -> bool:
        return await self._set(key, b" ".join(b"%d:%b" % each for each in events), ttl_ms)

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
