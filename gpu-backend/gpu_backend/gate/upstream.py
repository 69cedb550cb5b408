"""A small HTTP/1.1 client for the gate in front of a server: bodies pass in the pieces they came.

httptools parses; connections are kept and used again. One that the server had closed meanwhile
is replaced, as long as no byte of an answer has come.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from typing import cast
from urllib.parse import urlsplit

import httptools

from gpu_backend.gate.answers import Headers, UpstreamFailed

CONNECT_TIMEOUT_S = 5.0
# Above this much unread, the server is made to wait.
_HIGH_BYTES = 262_144
_MOST_IDLE = 256


class Gone(Exception):
    """The client went away."""


class Connection(asyncio.Protocol):
    """One connection, and the answer that it carries now."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.status = 0
        self.headers: Headers = []
        self.complete = False
        self.open = False
        self.used = False
        self._bare = False  # the answer has no body, whatever its head says
        self._framed = False
        self._head = False
        self._pieces: deque[bytes] = deque()
        self._unread = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)

    async def send(self, request: bytes, *, bare: bool) -> None:
        """Send a request and return when the head of its answer is there.

        Raises:
            ConnectionError: the server closed before that.
            Gone: the client went away meanwhile.
        """
        if self.transport is None:
            raise ConnectionError
        self.status, self.headers = 0, []
        self.complete = self._head = self._framed = False
        self._bare = bare
        self._parser = httptools.HttpResponseParser(self)
        self.transport.write(request)
        while not self._head:
            await self._wait()

    async def read(self) -> bytes:
        """The next piece of the body; empty at its end.

        Raises:
            ConnectionError: the server closed in the middle.
            Gone: the client went away.
        """
        while not self._pieces:
            if self.complete:
                return b""
            await self._wait()
        piece = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        self._pieces.clear()
        if self._unread > _HIGH_BYTES and self.transport is not None:
            self.transport.resume_reading()
        self._unread = 0
        return piece

    def abort(self, error: Exception | None = None) -> None:
        """Close at once; whoever waits gets the error."""
        self._fail(error or ConnectionError())
        self.open = False
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.abort(ConnectionError(type(error).__name__))
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._head and not self._framed and error is None:
            self.complete = True  # an answer without a length ends with the connection
        self._fail(error or ConnectionError())

    def on_status(self, status: bytes) -> None:
        """Nothing: the parser keeps the number."""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:  # an interim answer, 100 or 103: the real one follows
            self.headers = []
            return
        names = {name for name, _ in self.headers}
        self._framed = bool(names & {b"content-length", b"transfer-encoding"})
        self._head = True
        if self._bare:
            self.complete, self.open = True, False

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._unread += len(body)
        if self._unread > _HIGH_BYTES and self.transport is not None:
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = True
            self.open = self.open and self._parser.should_keep_alive()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._wake()


class Upstream:
    """The server at a base address like https://host:port/path."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like http://host:port")
        self.host = parts.hostname
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self.port = parts.port or (443 if self.tls else 80)
        self.base = parts.path.rstrip("/").encode()
        self._authority = parts.netloc.rpartition("@")[2].encode()
        self._idle: list[Connection] = []

    def request(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The head of a request as bytes; `target` is path and query."""
        lines = [b"%b %b%b HTTP/1.1" % (method.encode(), self.base, target)]
        lines.append(b"host: " + self._authority)
        lines += [name + b": " + value for name, value in headers]
        return b"\r\n".join((*lines, b"", b""))

    async def connect(self) -> Connection:
        """A connection: one that was kept, or a new one.

        Raises:
            UpstreamFailed: the server cannot be reached.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.open:
                connection.used = True
                return connection
        return await self.connect_anew()

    async def connect_anew(self) -> Connection:
        """A new connection, raising UpstreamFailed if there is none to be had."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, made = await loop.create_connection(
                    Connection, self.host, self.port, ssl=self.tls
                )
        except (OSError, TimeoutError) as error:
            raise UpstreamFailed("The model server cannot be reached.") from error
        return made

    def keep(self, connection: Connection) -> None:
        """Keep a connection whose answer is complete, or close it."""
        if connection.open and connection.complete and len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop().abort()
