"""One way to Redis for the whole gate: commands that wait at the same time travel as one batch.

A batch is one round trip on one connection, and batches follow each other in order, so a
settlement never overtakes a renewal that was sent before it. A Redis that fails is left alone
for a second: nobody waits for it, and everybody is told so at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from gpu_backend.gate.scripts import ALL, Script

Command = tuple[str | int, ...]
PAUSE_S = 1.0
_LARGEST_BATCH = 256


class RedisDown(Exception):
    """Redis did not answer in time, or not in order; whether the command acted is not known."""


def call(script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Command:
    """The command that runs a script."""
    return ("EVALSHA", script.sha, len(keys), *keys, *arguments)


class Line:
    """Sends commands to one Redis; `ask` waits for the reply."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._client: Redis = Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A reservation that is sent twice would refuse itself as used before.
            retry=Retry(NoBackoff(), 0),
            max_connections=1,
        )
        self._timeout_s = timeout_s
        self._waiting: list[tuple[Command, asyncio.Future[Any]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._down_until_s = 0.0
        self.why = ""

    @property
    def up(self) -> bool:
        """Whether Redis is worth asking."""
        return time.monotonic() >= self._down_until_s

    async def ask(self, command: Command) -> Any:
        """The reply to a command.

        Raises:
            RedisDown: it failed, or failed within the last second.
        """
        if not self.up:
            raise RedisDown(self.why)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return await future

    async def close(self) -> None:
        """Close the connection; who still waits is told that Redis is down."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])
        self._fail(self._waiting, "the gate is closing")
        self._waiting = []
        await self._client.aclose()

    async def _send_all(self) -> None:
        while self._waiting:
            batch, self._waiting = (
                self._waiting[:_LARGEST_BATCH],
                self._waiting[_LARGEST_BATCH:],
            )
            try:
                async with asyncio.timeout(2 * self._timeout_s):
                    replies = await self._send([command for command, _ in batch])
            except (RedisError, OSError, TimeoutError) as error:
                self._pause(error)
                self._fail(batch + self._waiting, self.why)
                self._waiting = []
                return
            except BaseException:
                self._fail(batch, "the gate is closing")
                raise
            for (_, future), reply in zip(batch, replies, strict=True):
                self._answer(future, reply)

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        replies = await self._pipeline(commands)
        missing = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:
            # A new or restarted Redis; a command that it refused this way did nothing.
            await self._pipeline([("SCRIPT", "LOAD", script.text) for script in ALL])
            again = await self._pipeline([commands[at] for at in missing])
            for at, reply in zip(missing, again, strict=True):
                replies[at] = reply
        return replies

    async def _pipeline(self, commands: Sequence[Command]) -> list[Any]:
        if len(commands) == 1:
            # The same bytes, for half the work of a pipeline object.
            execute: Callable[..., Awaitable[Any]] = self._client.execute_command
            try:
                return [await execute(*commands[0])]
            except ResponseError as error:
                return [error]
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(await pipeline.execute(raise_on_error=False))

    def _answer(self, future: asyncio.Future[Any], reply: Any) -> None:
        if future.done():
            return
        if isinstance(reply, Exception):
            # Out of memory, read-only, wrong password: it answers, but decides nothing.
            self._pause(reply)
            future.set_exception(RedisDown(self.why))
        else:
            future.set_result(reply)

    def _pause(self, error: BaseException) -> None:
        self._down_until_s = time.monotonic() + PAUSE_S
        self.why = type(error).__name__

    def _fail(self, waiting: Sequence[tuple[Command, asyncio.Future[Any]]], why: str) -> None:
        for _, future in waiting:
            if not future.done():
                future.set_exception(RedisDown(why))
