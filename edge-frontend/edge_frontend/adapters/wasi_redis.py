"""Store port: a Redis beside the edge, over wasi:sockets 0.3, never blocking other requests.

Connections are remembered by the instance as a hint; each carries one batch at a time. What the
protocol says is in `resp`; this file only moves bytes. docs/decisions/0003 says why redis-py is not
on the request path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from componentize_py_types import Err
from spin_sdk import wit

from .. import redis_commands as commands
from .. import resp
from ..errors import StoreDown
from ..ports import Operation, Result
from .waits import DROPPED, Alarm, Listener, Writing, new_future, within
from .wasi_sockets import address_of, connected

IDLE_CONNECTIONS = 16


class WasiRedis:
    """A Redis by its address `redis://[user][:password@]host:port[/database]`."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 6379
        database = parts.path.strip("/")
        self._hello = commands.hello(
            unquote(parts.username or ""), unquote(parts.password or ""), database
        )
        self._timeout_ms = timeout_ms
        self._idle: list[_Connection] = []

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        request = b"".join([resp.command(*commands.parts(operation)) for operation in operations])
        replies, trips = await self._ask(request, len(operations))
        results = [commands.result(*pair) for pair in zip(operations, replies, strict=True)]
        return results, trips

    async def _ask(self, request: bytes, count: int) -> tuple[list[resp.Value], int]:
        """Ask on an idle connection, or on a new one where none is idle and still open."""
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._on(connection, request, count), 1
            except _Closed:
                continue
        connection = await self._open()
        hello = b"".join(self._hello)
        try:
            replies = await self._on(connection, hello + request, len(self._hello) + count)
        except _Closed as error:
            raise StoreDown("The store closed the connection.") from error
        greeted, rest = replies[: len(self._hello)], replies[len(self._hello) :]
        if any(isinstance(reply, resp.RespError) for reply in greeted):
            self._idle.clear()
            raise StoreDown("The store refused the greeting.")
        return rest, 2

    async def _on(self, connection: _Connection, request: bytes, count: int) -> list[resp.Value]:
        try:
            replies = await connection.ask(request, count, self._timeout_ms)
        except TimeoutError as error:
            raise StoreDown("The store did not answer in time.") from error
        except resp.ProtocolError as error:
            raise StoreDown("The store answered out of order.") from error
        if len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return replies

    async def _open(self) -> _Connection:
        try:
            return await within(_Connection.open(self._host, self._port), self._timeout_ms)
        except TimeoutError as error:
            raise StoreDown("The store did not answer in time.") from error
        except Err as error:
            raise StoreDown("The store cannot be reached.") from error


class _Closed(Exception):
    """The other end closed the connection before it answered."""


class _Connection:
    """A TCP connection as two byte streams."""

    __slots__ = (
        "_answered",
        "_inward",
        "_is_written",
        "_keep",
        "_missing",
        "_outward",
        "_reader",
        "_reading",
        "_replies",
    )

    def __init__(self, outward: Any, inward: Any, keep: tuple[Any, ...]) -> None:
        self._outward, self._inward, self._keep = outward, inward, keep
        self._reader = resp.Reader()
        self._replies: list[resp.Value] = []

    @staticmethod
    async def open(host: str, port: int) -> _Connection:
        socket = await connected(await address_of(host), port)
        outward, source = wit.byte_stream()
        sending = socket.send(source)
        inward, receiving = socket.receive()
        return _Connection(outward, inward, (socket, sending, receiving))

    async def ask(self, request: bytes, count: int, limit_ms: int) -> list[resp.Value]:
        """Write the commands, read as many replies.

        Raises:
            TimeoutError: when they did not come in time; the connection is let go of.
            _Closed: when the other end closed it.
            ProtocolError: when it answered out of order.
        """
        self._answered, self._missing, self._replies = new_future(), count, []
        self._is_written = False
        self._reading = Listener(self._on_read)
        writing = Writing(self._outward, request, self._on_written)
        alarm = Alarm(limit_ms, self._on_late)
        try:
            self._read_on(self._reading.read(self._inward))
            replies: list[resp.Value] = await self._answered
            return replies
        except BaseException:
            writing.let_go()
            self._reading.let_go()
            self._abandon()
            raise
        finally:
            alarm.let_go()

    def close(self) -> None:
        """Drop both streams; nothing is waiting on them."""
        self._outward.__exit__(None, None, None)
        self._inward.__exit__(None, None, None)

    def _on_read(self, result: tuple[int, bytes]) -> None:
        try:
            self._read_on(result)
        except resp.ProtocolError as error:
            self._fail(error)

    def _read_on(self, result: tuple[int, bytes] | None) -> None:
        while result is not None:
            code, data = result
            self._reader.feed(data)
            while self._missing and (reply := self._reader.get()) is not resp.NEED_MORE:
                self._replies.append(reply)
                self._missing -= 1
            if not self._missing:
                self._answer()
                return
            if code == DROPPED:
                self._fail(_Closed())
                return
            result = self._reading.read(self._inward)

    def _on_written(self, whole: bool) -> None:
        self._is_written = True
        if not whole:
            self._fail(_Closed())
        self._answer()

    def _answer(self) -> None:
        """Done once all is read and all is written, which may be said later than the replies."""
        if self._is_written and not self._missing and not self._answered.done():
            self._answered.set_result(self._replies)

    def _on_late(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)

    def _abandon(self) -> None:
        """Let go of a connection that is still waited on; the host ends it with the instance."""
        self._outward.finalizer.detach()
        self._inward.finalizer.detach()
