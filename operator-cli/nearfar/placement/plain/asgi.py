"""Inbound and sink ports over ASGI, and the application that hands each request to the flow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from edge_frontend import flow, settings
from edge_frontend.account import fault_line
from edge_frontend.errors import BodyTooLarge
from edge_frontend.exchange import Exchange, Instance
from edge_frontend.ports import Ports, Reply
from nearfar.placement.plain.clock import PlainClock
from nearfar.placement.plain.store import PlainStore
from nearfar.placement.plain.upstream import PlainSockets, PlainUpstream

Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class PlainInbound:
    """The request of one ASGI scope."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        query = scope["query_string"].decode("latin-1")
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        self.headers: Sequence[tuple[str, bytes]] = [
            (name.decode("latin-1"), value) for name, value in scope["headers"]
        ]
        self._receive = receive

    async def body(self, limit_bytes: int) -> bytes:
        pieces, more = bytearray(), True
        while more:
            event = await self._receive()
            pieces += event.get("body", b"")
            if len(pieces) > limit_bytes:
                raise BodyTooLarge(f"The body must be at most {limit_bytes} bytes.")
            more = event.get("more_body", False)
        return bytes(pieces)


class PlainSink:
    """The client's end of a streamed body; what it still receives is that the client is gone."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._send, self._gone, self.aborted = send, False, False
        self._watching = asyncio.ensure_future(self._watch(receive))

    async def write(self, data: bytes) -> bool:
        if not self._gone:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        return not self._gone

    async def is_there(self) -> bool:
        await asyncio.sleep(0)
        return not self._gone

    def abort(self) -> None:
        self.aborted = True

    async def end(self) -> None:
        """End the body; a server closes the connection of one that was not ended."""
        self._watching.cancel()
        if not self.aborted and not self._gone:
            await self._send({"type": "http.response.body", "body": b""})

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True


class PlainApp:
    """The edge's core as an ASGI application."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        prefix = "NEARFAR_"
        self._settings = read = settings.from_variables(
            {
                name.removeprefix(prefix).lower(): value
                for name, value in environment.items()
                if name.startswith(prefix)
            }
        )
        self._tasks: set[asyncio.Future[None]] = set()
        self._instance, self._clock = Instance(), PlainClock()
        redis = read.store.startswith("redis://")
        self._ports = Ports(
            clock=self._clock,
            store=PlainStore(read.store, read.store_timeout_ms) if redis else None,
            upstream=PlainUpstream(),
            random_bytes=os.urandom,
            log=_log,
            spawn=self._spawn,
            sockets=PlainSockets(),
        )

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        inbound, started_ms = PlainInbound(scope, receive), self._clock.now_ms()
        x = Exchange.begin(inbound, self._ports, self._settings, self._instance, started_ms)
        await _answer(await flow.handle(x), receive, send)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _answer(reply: Reply, receive: Receive, send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if isinstance(reply.body, bytes):
        await send({"type": "http.response.body", "body": reply.body})
        return
    sink = PlainSink(receive, send)
    try:
        await reply.body(sink)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the process
        _log(fault_line(error, dict(reply.headers).get("x-request-id", "")))
        sink.abort()
    await sink.end()


def _log(line: str) -> None:
    print(line, flush=True)
