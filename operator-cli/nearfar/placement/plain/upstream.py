"""Upstream and sockets ports over the gate's HTTP client; connections are kept and used again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from edge_frontend.errors import UpstreamBroke, UpstreamTimeout, UpstreamUnreachable
from edge_frontend.ports import Answer, Call, Last, Sink
from gpu_backend.gate.answers import UpstreamFailed
from gpu_backend.gate.upstream import Connection, Upstream

_UNREACHABLE = "The model server cannot be reached."


class PlainUpstream:
    """Model servers by their addresses."""

    def __init__(self) -> None:
        self._servers: dict[str, Upstream] = {}

    async def send(self, call: Call) -> Answer:
        base = f"{call.scheme}://{call.authority}"
        server = self._servers.setdefault(base, Upstream(base))
        headers = [(name.encode(), value) for name, value in call.headers]
        method = "POST" if call.body else "GET"
        request = server.request(method, call.path.encode(), headers) + call.body
        try:
            async with asyncio.timeout(call.connect_timeout_ms / 1000):
                connection = await server.connect()
        except UpstreamFailed as error:
            raise UpstreamUnreachable(_UNREACHABLE) from error
        except TimeoutError as error:
            raise UpstreamTimeout("The model server took no connection in time.") from error
        connection = await _head(server, connection, request, call.first_byte_timeout_ms / 1000)
        found = tuple((name.decode("latin-1"), value) for name, value in connection.headers)
        source = PlainSource(server, connection, call.between_bytes_timeout_ms / 1000)
        return Answer(connection.status, found, source)

    def close(self) -> None:
        """Close what is idle."""
        for server in self._servers.values():
            server.close()


async def _head(
    server: Upstream, connection: Connection, request: bytes, timeout_s: float
) -> Connection:
    """Send and wait for the head, once more where a kept connection had been closed meanwhile."""
    try:
        async with asyncio.timeout(timeout_s):
            try:
                await connection.send(request, bare=False)
            except ConnectionError:
                if not connection.used:
                    raise
                connection = await server.connect_anew()
                await connection.send(request, bare=False)
    except TimeoutError as error:
        connection.abort()
        raise UpstreamTimeout("The model server did not answer in time.") from error
    except (OSError, UpstreamFailed) as error:
        raise UpstreamUnreachable(_UNREACHABLE) from error
    return connection


class PlainSource:
    """The body of a model server's answer."""

    def __init__(self, server: Upstream, connection: Connection, timeout_s: float) -> None:
        self._server, self._connection, self._timeout_s = server, connection, timeout_s
        self._closed = self._over = False

    async def read(self) -> bytes:
        if self._over:
            return b""
        try:
            async with asyncio.timeout(self._timeout_s):
                data = await self._connection.read()
        except TimeoutError as error:
            raise UpstreamTimeout("The model server sent nothing for too long.") from error
        except OSError as error:
            text = "The model server broke off in the middle of its answer."
            raise UpstreamBroke("The model call was ended." if self._closed else text) from error
        self._over = not data
        return data

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        piece, is_there = b"", True
        while type(piece) is not Last:
            data = await self.read()
            piece = feed(data)
            if piece and is_there:
                is_there = await sink.write(piece)
            if not data:
                return

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.keep(self._connection)


class PlainSockets:
    """Connections that are opened to see how long that takes."""

    async def look_up(self, host: str, timeout_ms: int) -> Any:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                found = await loop.getaddrinfo(host, None)
        except OSError as error:
            raise UpstreamUnreachable("The model server's name is not known.") from error
        return found[0][4][0]

    async def connect(self, address: Any, port: int, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, writer = await asyncio.open_connection(address, port)
        except OSError as error:  # a time-out is one
            raise UpstreamUnreachable("The model server takes no connection.") from error
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
