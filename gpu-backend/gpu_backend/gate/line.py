"""One way to Redis for the whole gate: commands that wait at the same time travel as one batch.

A batch is one round trip on one connection, and batches follow each other in order, so a
settlement never overtakes a renewal that was sent before it. A Redis that fails is left alone
for a second: nobody waits for it, and everybody is told so at once.

redis-py makes the connection (address, password, TLS) and reads the replies. Its client above
the connection (pool, retries, telemetry) takes half of a round trip's time and is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from gpu_backend.gate.scripts import ALL, Script

Command = tuple[str | int, ...]
Waiting = tuple[Command, "asyncio.Future[Any]"]
PAUSE_S = 1.0
# A connection that was idle for so long is looked at before it is used: Redis may have closed it.
_STALE_S = 1.0
_LARGEST_BATCH = 256
_CLOSING = "the gate is closing"


class RedisDown(Exception):
    """Redis did not answer in time, or not in order; whether the command acted is not known."""


def call(script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Command:
    """The command that runs a script."""
    return ("EVALSHA", script.sha, len(keys), *keys, *arguments)


def packed(command: Command) -> bytes:
    """A command as Redis reads it: an array of bulk strings."""
    words = [str(word).encode() for word in command]
    bulk = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%b" % (len(words), b"".join(bulk))


class Line:
    """Sends commands to one Redis in the order in which they are asked."""

    def __init__(self, url: str, timeout_s: float) -> None:
        pool = ConnectionPool.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A reservation that is sent twice would refuse itself as used before.
            retry=Retry(NoBackoff(), 0),
        )
        self._made: Callable[[], AbstractConnection] = pool.make_connection
        self._timeout_s = timeout_s
        self._connection: AbstractConnection | None = None
        self._used_s = 0.0
        self._waiting: list[Waiting] = []
        self._sender: asyncio.Task[None] | None = None
        self._down_until_s = 0.0
        self.why = ""

    @property
    def up(self) -> bool:
        """Whether Redis is worth asking."""
        return time.monotonic() >= self._down_until_s

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """The reply to a command, as a future: RedisDown if it failed, now or a second ago."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.up:
            future.set_exception(RedisDown(self.why))
            return future
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return future

    async def close(self) -> None:
        """Close the connection; who still waits is told that Redis is down."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        self._fail(self._waiting, _CLOSING)
        self._waiting = []
        await self._drop()

    async def _send_all(self) -> None:
        while self._waiting:
            batch = self._waiting[:_LARGEST_BATCH]
            del self._waiting[:_LARGEST_BATCH]
            try:
                async with asyncio.timeout(2 * self._timeout_s):
                    replies = await self._send([command for command, _ in batch])
            except (RedisError, OSError, TimeoutError) as error:
                self._pause(error)
                self._fail(batch + self._waiting, self.why)
                self._waiting = []
                await self._drop()
                return
            except BaseException:
                self._fail(batch, _CLOSING)
                raise
            for (_, future), reply in zip(batch, replies, strict=True):
                self._answer(future, reply)

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        replies = await self._exchange(commands)
        missing = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:
            # A new or restarted Redis; a command that it refused this way did nothing.
            await self._exchange([("SCRIPT", "LOAD", script.text) for script in ALL])
            again = await self._exchange([commands[at] for at in missing])
            for at, reply in zip(missing, again, strict=True):
                replies[at] = reply
        return replies

    async def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        """One round trip; a command that Redis refused has its error as its reply."""
        connection = await self._connected()
        batch = b"".join(map(packed, commands))
        await connection.send_packed_command(batch, check_health=False)
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response())
            except ResponseError as error:
                replies.append(error)
        self._used_s = time.monotonic()
        return replies

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None and time.monotonic() - self._used_s > _STALE_S:
            try:
                stale = await connection.can_read()
            except (RedisError, OSError):
                stale = True
            if stale:
                await self._drop()
        if self._connection is None:
            self._connection = self._made()
            connect: Callable[[], Awaitable[None]] = self._connection.connect
            await connect()
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _answer(self, future: asyncio.Future[Any], reply: Any) -> None:
        if future.done():
            return
        if isinstance(reply, Exception):
            # Out of memory, read-only, no permission: it answers, but decides nothing.
            self._pause(reply)
            future.set_exception(RedisDown(self.why))
        else:
            future.set_result(reply)

    def _pause(self, error: BaseException) -> None:
        self._down_until_s = time.monotonic() + PAUSE_S
        self.why = type(error).__name__

    def _fail(self, waiting: Sequence[Waiting], why: str) -> None:
        for _, future in waiting:
            if not future.done():
                future.set_exception(RedisDown(why))
