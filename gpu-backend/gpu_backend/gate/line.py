"""One way to Redis for the whole gate: one connection, on which commands follow each other.

They are sent as they are asked and done in that order, so a settlement never overtakes a renewal
that was sent before it. A Redis that fails is left alone for a second: nobody waits for it, and
everybody is told so at once.

redis-py reads the address (password, database, TLS); the connection is the gate's own (wire.py).
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Sequence
from typing import Any

from redis.asyncio import ConnectionPool, SSLConnection

from gpu_backend.gate.scripts import ALL, Script
from gpu_backend.gate.wire import Command, Refused, Reply, Wire

Waiting = tuple[Command, "asyncio.Future[Any]"]
PAUSE_S = 1.0
_LOAD: tuple[Command, ...] = tuple(("SCRIPT", "LOAD", script.text) for script in ALL)


class RedisDown(Exception):
    """Redis did not answer in time, or not in order; whether the command acted is not known."""


def call(script: Script, keys: Sequence[str], arguments: Sequence[str | int]) -> Command:
    """The command that runs a script."""
    return ("EVALSHA", script.sha, len(keys), *keys, *arguments)


class Line:
    """Sends commands to one Redis in the order in which they are asked."""

    def __init__(self, url: str, timeout_s: float) -> None:
        # It is never connected: it knows what the address says.
        pool: Any = ConnectionPool.from_url(url)
        self._address = pool.make_connection()
        self._timeout_s = 2 * timeout_s
        self._wire: Wire | None = None
        self._queue: list[Waiting] = []  # what waits for the connection
        self._connecting: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
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
        elif self._wire is not None:
            self._send(self._wire, command, future)
        else:
            self._queue.append((command, future))
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect())
        return future

    async def close(self) -> None:
        """Close the connection; who still waits is told that Redis is down."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self._break(ConnectionAbortedError())

    async def _connect(self) -> None:
        """Open the connection, say who we are, bring the scripts, and send what waits."""
        address = self._address
        tls = address.ssl_context.get() if isinstance(address, SSLConnection) else None
        wire: Wire | None = None
        try:
            async with asyncio.timeout(self._timeout_s):
                _, wire = await asyncio.get_running_loop().create_connection(
                    lambda: Wire(self._lost), address.host, address.port, ssl=tls
                )
                await wire.ask_all((*self._greeting(), *_LOAD))
        except (OSError, TimeoutError, Refused, ValueError) as error:
            if wire is not None:
                wire.end(error)
            self._break(error)
            return
        except asyncio.CancelledError:
            if wire is not None:
                wire.end(ConnectionAbortedError())
            raise
        self._wire = wire
        queue, self._queue = self._queue, []
        for command, future in queue:
            self._send(wire, command, future)

    def _greeting(self) -> list[Command]:
        found: list[Command] = []
        if self._address.password:
            names = [self._address.username] if self._address.username else []
            found.append(("AUTH", *names, self._address.password))
        if self._address.db:
            found.append(("SELECT", self._address.db))
        return found

    def _send(
        self, wire: Wire, command: Command, future: asyncio.Future[Any], *, again: bool = False
    ) -> None:
        wire.ask(command, functools.partial(self._answer, wire, command, future, again))
        if self._watching is None:
            self._watch_in(self._timeout_s)

    def _answer(
        self,
        wire: Wire,
        command: Command,
        future: asyncio.Future[Any],
        again: bool,
        reply: Reply | Exception,
    ) -> None:
        if isinstance(reply, Refused) and reply.kind == "NOSCRIPT" and not again:
            # Somebody flushed them; a command that was refused this way did nothing.
            for load in _LOAD:
                wire.ask(load, _ignore)
            self._send(wire, command, future, again=True)
        elif isinstance(reply, Exception):
            # Out of memory, read-only, no permission: it answers, but decides nothing.
            self._pause(reply)
            if not future.done():
                future.set_exception(RedisDown(self.why))
        elif not future.done():
            future.set_result(reply)

    def _watch_in(self, seconds: float) -> None:
        self._watching = asyncio.get_running_loop().call_later(seconds, self._watch)

    def _watch(self) -> None:
        """End a connection on which a command waits for too long."""
        self._watching = None
        oldest_s = self._wire.oldest_s if self._wire is not None else None
        if oldest_s is None:
            return
        left_s = oldest_s + self._timeout_s - asyncio.get_running_loop().time()
        if left_s > 0:
            self._watch_in(left_s)
        else:
            self._break(TimeoutError())

    def _lost(self, wire: Wire, why: Exception) -> None:
        """The connection has ended: nothing to tell where nobody waits."""
        if wire is self._wire:
            self._wire = None
            if wire.oldest_s is not None:
                self._pause(why)

    def _break(self, why: Exception) -> None:
        """Give up what is under way and leave Redis alone for a while."""
        self._pause(why)
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.end(why)
        queue, self._queue = self._queue, []
        for _, future in queue:
            if not future.done():
                future.set_exception(RedisDown(self.why))

    def _pause(self, error: BaseException) -> None:
        self._down_until_s = time.monotonic() + PAUSE_S
        self.why = error.kind if isinstance(error, Refused) else type(error).__name__


def _ignore(reply: Reply | Exception) -> None:
    """The reply to a command that nobody waits for."""
