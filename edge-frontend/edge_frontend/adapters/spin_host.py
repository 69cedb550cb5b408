"""What only Spin offers: variables, its key-value store, its Redis client. Importable on Spin alone."""

from __future__ import annotations

from componentize_py_types import Err
from spin_sdk.wit.imports import spin_key_value_key_value_3_0_0 as key_value
from spin_sdk.wit.imports import spin_redis_redis_3_0_0 as redis
from spin_sdk.wit.imports import spin_variables_variables_3_0_0 as spin_variables

from .. import resp, settings
from ..ports import Clock, Store
from .spin_stores import SpinKeyValue, SpinRedis


async def variables() -> dict[str, str]:
    """The application's variables; one that is not declared counts as not set."""
    values = {}
    for name in settings.names():
        try:
            values[name] = await spin_variables.get("nearfar_" + name)
        except Err:
            continue
    return values


async def open_store(address: str, clock: Clock) -> Store | None:
    """The store of an address `kv:NAME` or `redis://…`."""
    if address.startswith("kv:"):
        opened = await key_value.Store.open(address.removeprefix("kv:"))
        return SpinKeyValue(opened, clock.wall_s, Err)
    if address.startswith("redis://"):
        return SpinRedis(_Redis(await redis.Connection.open(address)), Err)
    return None


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
