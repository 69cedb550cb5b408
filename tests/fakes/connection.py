"""One connection to the fake upstream: reads requests, writes scripted bytes, sees the close."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from typing import Protocol

from . import wire
from .answer import CREATED, ID, render_body
from .ask import Ask
from .events import Event, render_stream, total_ms
from .record import Record
from .script import Script, error_body

_ID = ID.encode()
_CREATED = str(CREATED).encode()
_JSON = ("content-type", "application/json")
_SSE = ("content-type", "text/event-stream; charset=utf-8")


class Server(Protocol):
    """What a connection asks of its server."""

    def opened(self, connection: "Connection") -> None:
        """Counts a new connection."""

    def closed(self, connection: "Connection") -> None:
        """Forgets a connection."""

    def received(self, head: wire.Head, body: bytes) -> tuple[Record, Script | None]:
        """Logs a request; the script is None where the request is not a chat completion."""

    async def turn(self, record: Record) -> None:
        """Waits until the server has room to compute a request."""

    def ended(self, record: Record) -> None:
        """Says that a chat request is no longer being answered."""

    def plain(self, record: Record) -> tuple[int, bytes]:
        """Status and JSON body for what is not a chat completion."""

    def changed(self) -> None:
        """Wakes whoever waits for a change in the records."""


class Connection(asyncio.Protocol):
    """A protocol rather than a stream pair: each write is one send, each close is seen at once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader = wire.RequestReader()
        self._record: Record | None = None
        self._task: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._reader.feed(data)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio; an answer that was under way ends here."""
        if self._record is not None and self._record.t_closed_by_peer is None:
            self._record.t_closed_by_peer = time.monotonic()
        if self._task is not None:
            self._task.cancel()
        self._server.closed(self)
        self._server.changed()

    def pause_writing(self) -> None:
        """Called by asyncio when the peer reads too slowly."""
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Called by asyncio when the peer has caught up."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None

    def _next(self) -> None:
        """Starts the answer to the next whole request; answers never overlap."""
        if self._record is not None or self.transport.is_closing():
            return
        try:
            taken = self._reader.take()
        except (wire.BadMessage, ValueError):
            self.transport.write(wire.head(400, (("content-length", "0"), ("connection", "close"))))
            self.transport.close()
            return
        if taken is not None:
            self._record, script = self._server.received(*taken)
            self._task = asyncio.get_running_loop().create_task(self._answer(taken[0], script))
            if script is not None:
                record = self._record
                self._task.add_done_callback(lambda _: self._server.ended(record))
        elif self._reader.wants_continue:
            self._reader.wants_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _answer(self, head: wire.Head, script: Script | None) -> None:
        record = self._record
        assert record is not None
        if script is None:
            self._whole(record, *self._server.plain(record), ())
            whole = True
        else:
            whole = await self._chat(record, script)
        if whole and not self.transport.is_closing():
            record.t_finished = time.monotonic()
        self._record = None
        self._server.changed()
        if not whole or not head.keeps_alive or (script and script.framing == "close"):
            self.transport.close()
        self._next()

    async def _chat(self, record: Record, script: Script) -> bool:
        """Answers as scripted; whether the answer was whole."""
        await self._until(record, script.head_ms)
        if script.end_before_head:
            return await self._break_off(script)
        if script.is_error:
            body = script.body if script.body is not None else error_body(script.status, "made up")
            if script.echo_key:
                body = error_body(script.status, f"Incorrect key: {record.header('authorization')}")
            self._whole(record, script.status, body, script.headers)
            return True
        try:
            ask = Ask.of(record.json)
        except (AttributeError, TypeError, ValueError):
            self._whole(record, 400, error_body(400, "not a chat request"), ())
            return True
        if ask.stream:
            return await self._stream(record, script, ask)
        return await self._body(record, script, ask)

    async def _body(self, record: Record, script: Script, ask: Ask) -> bool:
        if script.end == "error":
            await self._until(record, total_ms(ask, script))
            self._whole(record, 500, error_body(500, "EngineCore encountered an issue."), ())
            return True
        body = self._fresh(render_body(ask, script))
        length = () if script.framing == "close" else (("content-length", str(len(body))),)
        await self._server.turn(record)
        await self._until(record, total_ms(ask, script))
        self._head(record, 200, (_JSON, *length, *script.headers))
        if script.end in ("fin", "rst", "hang"):
            await self._write(body[: len(body) // 2], script, coded=False)
            return await self._break_off(script)
        record.t_first_content_sent = time.monotonic()
        await self._write(body, script, coded=False)
        return True

    async def _stream(self, record: Record, script: Script, ask: Ask) -> bool:
        if script.anew:
            render_stream.cache_clear()
        events = render_stream(ask, script)
        coded = script.framing == "chunked"
        if script.framing == "length":
            size = sum(len(event.data) for event in events)
            how = (("content-length", str(size)),)
        else:
            how = (("transfer-encoding", "chunked"),) if coded else (("connection", "close"),)
        self._head(record, 200, (_SSE, *how, *script.headers))
        await self._server.turn(record)
        for event in _joined(events) if script.write_bytes == 0 else events:
            await self._until(record, event.at_ms)
            if event.is_delta:
                now = time.monotonic()
                record.t_first_content_sent = record.t_first_content_sent or now
                record.deltas_sent_ms.append((now - record.t_received) * 1000)
            await self._write(self._fresh(event.data), script, coded=coded)
            record.chunks_sent += event.is_delta
        if script.end in ("fin", "rst", "hang"):
            return await self._break_off(script)
        if coded:
            self.transport.write(wire.END_OF_CHUNKS)
        return True

    async def _write(self, data: bytes, script: Script, *, coded: bool) -> None:
        """Writes one event, in pieces of the scripted size, a turn of the loop between them."""
        size = script.write_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.transport.write(wire.chunk(piece) if coded else piece)
            if self._room is not None:
                await self._room
            if size < len(data):
                await asyncio.sleep(script.write_gap_ms / 1000)

    async def _break_off(self, script: Script) -> bool:
        """Ends the connection as scripted; a hang lasts until the peer goes."""
        if script.end == "hang":
            await asyncio.get_running_loop().create_future()
        self._record = None  # the close is ours
        if script.end == "rst":
            self.reset()
        else:
            self.transport.close()
        return False

    def drop(self) -> None:
        """Resets in the middle of an answer; what was written whole still arrives."""
        if self._record is None:
            self.transport.close()
        else:
            self.reset()

    def reset(self) -> None:
        """Closes with RST instead of FIN: lingering for zero seconds throws away what is unsent."""
        peer: socket.socket = self.transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def _until(self, record: Record, at_ms: float) -> None:
        began = record.t_received if record.t_started is None else record.t_started
        left = began + at_ms / 1000 - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    def _whole(
        self, record: Record, status: int, body: bytes, headers: tuple[tuple[str, str], ...]
    ) -> None:
        own = () if any(name.lower() == "content-type" for name, _ in headers) else (_JSON,)
        self._head(record, status, (*own, ("content-length", str(len(body))), *headers))
        self.transport.write(body)

    def _head(self, record: Record, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.transport.write(wire.head(status, (("server", "uvicorn"), *headers)))
        record.t_head_sent = time.monotonic()
        self._server.changed()

    def _fresh(self, data: bytes) -> bytes:
        """The rendered bytes with this request's own id and time in place of the stand-ins."""
        assert self._record is not None
        own = f"chatcmpl-{self._record.number:032x}".encode()
        return data.replace(_ID, own).replace(_CREATED, b"%d" % time.time())


def _joined(events: tuple[Event, ...]) -> Iterator[Event]:
    """One event for all that are due at one time; it counts as a delta when one of them does."""
    waiting: list[Event] = []
    for event in (*events, None):
        if waiting and (event is None or event.at_ms != waiting[0].at_ms):
            kind = "content" if any(each.is_delta for each in waiting) else waiting[0].kind
            yield Event(waiting[0].at_ms, kind, b"".join(each.data for each in waiting))
            waiting = []
        if event is not None:
            waiting.append(event)
