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
from spin_sdk.wit.imports import wasi_sockets_ip_name_lookup_0_3_0 as names
from spin_sdk.wit.imports import wasi_sockets_types_0_3_0 as sockets

from .. import redis_commands as commands
from .. import resp
from ..errors import StoreDown
from ..ports import Operation, Result
from .wasi_clock import within

READ_BYTES = 65_536
IDLE_CONNECTIONS = 16


class WasiRedis:
    """A Redis by its address `redis://[user][:password@]host:port[/database]`."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 6379
        self._hello = commands.hello(
            unquote(parts.username or ""), unquote(parts.password or ""), parts.path.strip("/")
        )
        self._timeout_ms = timeout_ms
        self._idle: list[_Connection] = []

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        encoded = [resp.command(*commands.parts(operation)) for operation in operations]
        replies, trips = await self._ask(b"".join(encoded), len(encoded))
        results = [commands.result(*pair) for pair in zip(operations, replies, strict=True)]
        return results, trips

    async def _ask(self, request: bytes, count: int) -> tuple[list[resp.Value], int]:
        """Ask on an idle connection, or a new one where there is none or the idle one was closed."""
        while self._idle:
            connection = self._idle.pop()
            try:
                replies = await self._on(connection, request, count)
            except _Closed:
                continue
            return replies, 1
        connection, trips = await self._connect()
        try:
            return await self._on(connection, request, count), trips + 1
        except _Closed as error:
            raise StoreDown("The store closed the connection.") from error

    async def _on(self, connection: _Connection, request: bytes, count: int) -> list[resp.Value]:
        try:
            replies = await within(connection.ask(request, count), self._timeout_ms)
        except TimeoutError as error:
            connection.abandon()
            raise StoreDown("The store did not answer in time.") from error
        except resp.ProtocolError as error:
            connection.close()
            raise StoreDown("The store answered out of order.") from error
        if len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return replies

    async def _connect(self) -> tuple[_Connection, int]:
        """A new connection, greeted; answers it and the round trips that took."""
        try:
            connection = await within(_Connection.open(self._host, self._port), self._timeout_ms)
        except TimeoutError as error:
            raise StoreDown("The store did not answer in time.") from error
        except Err as error:
            raise StoreDown("The store cannot be reached.") from error
        connection.greet(self._hello)
        return connection, 1


class _Closed(Exception):
    """The other end closed the connection before it answered."""


class _Connection:
    """A TCP connection as two byte streams."""

    __slots__ = ("_greeting", "_inward", "_keep", "_outward", "_reader", "_skip")

    def __init__(self, outward: Any, inward: Any, keep: tuple[Any, ...]) -> None:
        self._outward, self._inward, self._keep = outward, inward, keep
        self._reader = resp.Reader()
        self._greeting = b""
        self._skip = 0

    @staticmethod
    async def open(host: str, port: int) -> _Connection:
        address = (await names.resolve_addresses(host))[0]
        if isinstance(address, sockets.IpAddress_Ipv4):
            family = sockets.IpAddressFamily.IPV4
            remote: Any = sockets.IpSocketAddress_Ipv4(sockets.Ipv4SocketAddress(port, address.value))
        else:
            family = sockets.IpAddressFamily.IPV6
            remote = sockets.IpSocketAddress_Ipv6(sockets.Ipv6SocketAddress(port, 0, address.value, 0))
        socket = sockets.TcpSocket.create(family)
        await socket.connect(remote)
        outward, source = wit.byte_stream()
        sending = socket.send(source)
        inward, receiving = socket.receive()
        return _Connection(outward, inward, (socket, sending, receiving))

    def greet(self, hello: Sequence[bytes]) -> None:
        """Send these commands before the first batch, in the same round trip."""
        self._greeting, self._skip = b"".join(hello), len(hello)

    async def ask(self, request: bytes, count: int) -> list[resp.Value]:
        """Write the commands, read as many replies."""
        request, self._greeting = self._greeting + request, b""
        await self._outward.write_all(request)
        replies: list[resp.Value] = []
        while len(replies) < count + self._skip:
            reply = self._reader.get()
            if reply is resp.NEED_MORE:
                data = await self._inward.read(READ_BYTES)
                if not data and self._inward.writer_dropped:
                    raise _Closed
                self._reader.feed(data)
            else:
                replies.append(reply)
        greeted, self._skip = replies[: self._skip], 0
        for reply in greeted:
            if isinstance(reply, resp.RespError):
                raise resp.ProtocolError("the store refused the greeting")
        return replies[len(greeted) :]

    def close(self) -> None:
        """Drop both streams; nothing is waiting on them."""
        self._outward.__exit__(None, None, None)
        self._inward.__exit__(None, None, None)

    def abandon(self) -> None:
        """Let go of a connection on which a read still waits; the host ends it with the instance."""
        self._inward.finalizer.detach()
        self._outward.finalizer.detach()
