"""What only Spin offers: variables, its key-value store, its Redis client. Importable on Spin alone."""

from __future__ import annotations

from collections.abc import Sequence

from componentize_py_types import Err
from spin_sdk.wit.imports import spin_key_value_key_value_3_0_0 as key_value
from spin_sdk.wit.imports import spin_redis_redis_3_0_0 as redis
from spin_sdk.wit.imports import spin_variables_variables_3_0_0 as spin_variables

from .. import resp, settings
from ..errors import StoreDown
from ..ports import Clock, Operation, Result, Store
from .spin_stores import SpinKeyValue, SpinRedis
from .waits import within


async def variables() -> dict[str, str]:
    """The application's variables; one that is not declared counts as not set."""
    values = {}
    for name in settings.names():
        try:
            values[name] = await spin_variables.get("nearfar_" + name)
        except Err:
            continue
    return values


class SpinStore:
    """A store of the host by its address `kv:NAME` or `redis://…`, opened when first asked."""

    def __init__(self, address: str, timeout_ms: int, clock: Clock) -> None:
        self._address, self._timeout_ms, self._clock = address, timeout_ms, clock
        self._opened: Store | None = None

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        try:
            return await within(self._perform(operations), self._timeout_ms)
        except TimeoutError as error:
            raise StoreDown("The store did not answer in time.") from error
        except Err as error:
            raise StoreDown("The store cannot be opened.") from error

    async def _perform(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        if self._opened is None:
            self._opened = await self._open()
        return await self._opened.batch(operations)

    async def _open(self) -> Store:
        if self._address.startswith("kv:"):
            opened = await key_value.Store.open(self._address.removeprefix("kv:"))
            return SpinKeyValue(opened, self._clock.wall_s, Err)
        return SpinRedis(_Redis(await redis.Connection.open(self._address)), Err)


class _Redis:
    def __init__(self, connection: redis.Connection) -> None:
        self._connection = connection

    async def execute(self, parts: tuple[bytes, ...]) -> resp.Value:
        name, *arguments = parts
        values = [redis.RedisParameter_Binary(argument) for argument in arguments]
        replies = await self._connection.execute(name.decode(), values)
        match replies[0] if replies else redis.RedisResult_Nil():
            case redis.RedisResult_Status(value=text):
                return text.encode()
            case redis.RedisResult_Int64(value=number):
                return number
            case redis.RedisResult_Binary(value=data):
                return bytes(data)
            case _:
                return None
