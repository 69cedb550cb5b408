"""The application behind a gate that stands in front of a server: it hands requests on to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gpu_backend.gate.answers import Headers, Receive, Scope, Send, TooLarge, UpstreamFailed
from gpu_backend.gate.upstream import Connection, Gone, Upstream

# A request is held whole, so that it can be sent again over a new connection.
MOST_BODY_BYTES = 32 << 20

# RFC 9110, 7.6.1, and what belongs to one of the two connections alone.
_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# A compressed answer would hide its usage.
_NOT_SENT = _HOP | {b"host", b"content-length", b"accept-encoding", b"expect"}
# The server's own limits are between it and the operator.
_NOT_PASSED = (b"x-ratelimit-", b"x-nearfar-")


class Proxy:
    """Hands requests on to one server and its answers back, piece by piece."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body = await _body(receive)
        if body is None:
            return
        leaving = _Leaving()
        watch = asyncio.create_task(leaving.watch(receive))
        try:
            await self._exchange(scope, body, leaving, send)
        except (Gone, ConnectionError):
            # Without an end of the answer: the client, if it is there, sees it break off.
            return
        finally:
            watch.cancel()

    async def _exchange(self, scope: Scope, body: bytes, leaving: _Leaving, send: Send) -> None:
        connection = await self._ask(scope, body, leaving)
        try:
            headers = passed(connection.headers)
            await send(
                {"type": "http.response.start", "status": connection.status, "headers": headers}
            )
            while piece := await connection.read():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._upstream.keep(connection)

    async def _ask(self, scope: Scope, body: bytes, leaving: _Leaving) -> Connection:
        """Send the request; the head of its answer is there when this returns."""
        request = self._upstream.request(scope["method"], _target(scope), sent(scope, body)) + body
        connection = await self._upstream.connect()
        while True:
            leaving.of(connection)
            try:
                await connection.send(request, bare=scope["method"] == "HEAD")
            except ConnectionError as error:
                kept = connection.used and not connection.status
                connection.abort()
                if not kept:
                    raise UpstreamFailed("The model server closed the connection.") from error
                connection = await self._upstream.connect_anew()
            except BaseException:
                connection.abort()
                raise
            else:
                return connection

    async def _live(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        self._upstream.close()
        await send({"type": "lifespan.shutdown.complete"})


class _Leaving:
    """Ends the connection to the server when the client goes away."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._gone = False

    async def watch(self, receive: Receive) -> None:
        """Wait until the client has gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        if self._connection is not None:
            self._connection.abort(Gone())

    def of(self, connection: Connection) -> None:
        """Name the connection that is to end."""
        self._connection = connection
        if self._gone:
            connection.abort(Gone())


def sent(scope: Scope, body: bytes) -> Headers:
    """The headers that go on to the server."""
    given: Headers = list(scope["headers"])
    found = _end_to_end(given, _NOT_SENT)
    if body or scope["method"] not in ("GET", "HEAD", "OPTIONS"):
        found.append((b"content-length", b"%d" % len(body)))
    return found


def passed(headers: Headers) -> Headers:
    """The headers of an answer that go back to the client."""
    return [
        (name, value)
        for name, value in _end_to_end(headers, _HOP)
        if not name.startswith(_NOT_PASSED)
    ]


def _end_to_end(headers: Headers, without: Iterable[bytes]) -> Headers:
    """Without the named ones and those that a Connection header names."""
    left_out = set(without)
    for name, value in headers:
        if name == b"connection":
            left_out.update(word.strip().lower() for word in value.split(b","))
    return [(name, value) for name, value in headers if name not in left_out]


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where the client went away before its end."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > MOST_BODY_BYTES:
            raise TooLarge(f"The request is larger than {MOST_BODY_BYTES} bytes.")
        if not message.get("more_body", False):
            return b"".join(pieces)
