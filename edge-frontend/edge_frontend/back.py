"""Stream back: from a source of bytes to the client, live or as one body, and the cache behind it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from . import account, answer, cache, flight, prompt, sse
from .errors import EdgeError, UpstreamBroke
from .exchange import Exchange
from .ports import Reply, Sink, Source
from .relay import Relay
from .request import ChatRequest

# A client that wants one body gets its head once this has passed since the model server's head:
# until then a failure is still a status, from then on a client that left is noticed.
HOLD_HEAD_MS = 500
_STREAM = (("content-type", "text/event-stream; charset=utf-8"),)
_JSON = (("content-type", "application/json"),)
_DONE = sse.frame(sse.DONE)


def common_headers(x: Exchange) -> tuple[tuple[str, str], ...]:
    """What every reply carries."""
    return (("x-request-id", x.account.request_id), ("cache-control", "no-store"))


def replay(x: Exchange, request: ChatRequest, entry: cache.Entry, traced: bool) -> Reply:
    """Send a kept answer, as a stream or as one body, whichever was asked."""
    x.account.input_tokens, x.account.output_tokens = entry.input_tokens, entry.output_tokens
    age = max(0, int(x.ports.clock.wall_s()) - entry.stored_at)
    head = (*_answer_headers(x), ("age", str(age)))
    if not request.stream:
        return _whole(x, entry.body, head, traced)
    frames = entry.frames + (entry.usage_frame if request.wants_usage else b"")

    async def produce(sink: Sink) -> None:
        if traced:
            await sink.write(frames)
            _sent(x)
            await sink.write(_record_frame(x, json.loads(entry.body)) + _DONE)
        else:
            await sink.write(frames + _DONE)
            _sent(x)
        log(x)

    x.account.status = 200
    return Reply(200, (*head, *_STREAM), produce)


async def stream_back(
    x: Exchange, request: ChatRequest, source: Source, lead: flight.Lead | None, traced: bool
) -> Reply:
    """Carry the answer of a source to the client."""
    relay = Relay(wants_usage=request.wants_usage, keep=lead is not None or not request.stream)
    carriage = _Carriage(x, request, source, relay, lead)
    if request.stream:
        x.account.status = 200

        async def produce(sink: Sink) -> None:
            x.ports.spawn(carriage.watch(sink))
            await carriage.stream(sink, traced)

        return Reply(200, (*_answer_headers(x), *_STREAM), produce)
    return await _collect(x, carriage, traced)


async def _collect(x: Exchange, carriage: _Carriage, traced: bool) -> Reply:
    """One body: whole with its status if it is quick, else behind an early head."""
    gathering = asyncio.ensure_future(carriage.gather())
    holding = asyncio.ensure_future(x.ports.clock.sleep_ms(HOLD_HEAD_MS))
    await asyncio.wait((gathering, holding), return_when=asyncio.FIRST_COMPLETED)
    if gathering.done():
        body = gathering.result()
        return _whole(x, body, _answer_headers(x), traced, then=carriage.keep)
    head = _answer_headers(x)

    async def produce(sink: Sink) -> None:
        x.ports.spawn(carriage.watch(sink))
        try:
            body = await gathering
        except EdgeError as error:
            x.account.error = error.code
            await sink.write(error.body())
            sink.abort()
        else:
            await _send_whole(x, sink, body, traced)
        await carriage.keep()
        log(x)

    x.account.status = 200
    return Reply(200, (*head, *_JSON), produce)


class _Carriage:
    """One answer underway: read from its source, relayed, watched, kept."""

    __slots__ = ("_body", "_ended", "_gone", "_lead", "_relay", "_request", "_source", "_x")

    def __init__(
        self,
        x: Exchange,
        request: ChatRequest,
        source: Source,
        relay: Relay,
        lead: flight.Lead | None,
    ) -> None:
        self._x, self._request, self._source, self._relay, self._lead = x, request, source, relay, lead
        self._gone = False
        self._ended = False
        self._body: dict[str, Any] | None = None

    async def stream(self, sink: Sink, traced: bool) -> None:
        """Forward what comes as it comes; a failure becomes an event, never a made-up end."""
        x, relay = self._x, self._relay
        try:
            async for piece in self._pieces():
                had_content = "t5" in x.account.instants
                if piece and not self._gone:
                    self._gone = not await sink.write(piece)
                if relay.has_content and not had_content:
                    x.mark("forward_first", "t5")
        except EdgeError as error:
            x.account.error = error.code
            await sink.write(sse.frame(error.body()))
        else:
            x.mark("stream", "t6")
            await sink.write((_record_frame(x, relay.head) if traced else b"") + _DONE)
        await self._finish()
        await self.keep()
        log(x)

    async def gather(self) -> bytes:
        """The whole answer as one body.

        Raises:
            UpstreamError: when it did not come whole.
        """
        try:
            async for _ in self._pieces():
                pass
            self._x.mark("collect")
            self._body = self._relay.body(self._request.choices)
            if self._body is None:
                raise UpstreamBroke("The model server ended before its answer was complete.")
        except EdgeError:
            await self._finish()
            await self.keep()
            raise
        await self._finish()
        return prompt.dump(self._body)

    async def watch(self, sink: Sink) -> None:
        """Notice a client that left, let followers have what came, end what nobody waits for."""
        lead, sleep_ms = self._lead, self._x.ports.clock.sleep_ms
        while not self._ended:
            followed = lead is not None and lead.followed
            await sleep_ms(flight.TICK_FOLLOWED_MS if followed else flight.TICK_MS)
            if self._ended:
                return
            self._gone = self._gone or not await sink.is_there()
            if lead is not None:
                await lead.tick()
            if self._gone and not (lead is not None and lead.followed):
                self._source.close()
                return

    async def keep(self) -> None:
        """Give the lease back, with the answer if it is complete."""
        lead, x = self._lead, self._x
        if lead is None:
            return
        self._lead = None
        await lead.finish(_entry(x, self._body) if self._body is not None else None)

    async def _pieces(self) -> Any:
        """Bytes to forward, until the stream's own end has come."""
        x, relay, lead = self._x, self._relay, self._lead
        while not relay.done:
            data = await self._source.read()
            if not data:
                relay.end()
            arrived = x.ports.clock.now_ms() if not relay.has_content else 0.0
            if lead is not None:
                lead.saw(data)
            piece = relay.feed(data)
            if arrived and relay.has_content:
                x.account.mark("model_call", arrived, "t4")
            if relay.failed is not None:
                raise UpstreamBroke("The model server reported an error in the middle of its answer.")
            yield piece
        _count(x, relay)

    async def _finish(self) -> None:
        """See whether the source ended cleanly after its last event; only then the answer is kept."""
        relay, self._ended = self._relay, True
        try:
            while relay.done and (data := await self._source.read()):
                if self._lead is not None:
                    self._lead.saw(data)
            if self._lead is not None and relay.done and self._body is None:
                self._body = relay.body(self._request.choices)
        except EdgeError:
            self._body = None
        self._source.close()


def _whole(x: Exchange, body: bytes, head: tuple[tuple[str, str], ...], traced: bool, then: Any = None) -> Reply:
    async def produce(sink: Sink) -> None:
        await _send_whole(x, sink, body, traced)
        if then is not None:
            await then()
        log(x)

    x.account.status = 200
    length = () if traced else (("content-length", str(len(body))),)
    return Reply(200, (*head, *_JSON, *length), produce)


async def _send_whole(x: Exchange, sink: Sink, body: bytes, traced: bool) -> None:
    """Write a JSON object; the record, if asked, is its last field and says when the rest was sent."""
    if not traced:
        await sink.write(body)
        _sent(x)
        return
    await sink.write(body[:-1])
    _sent(x)
    record = json.dumps(x.account.record(), separators=(",", ":")).encode()
    await sink.write(b',"nearfar":' + record + b"}")


def _sent(x: Exchange) -> None:
    x.mark("forward", "t5")
    x.account.instants["t6"] = x.account.instants["t5"]


def _entry(x: Exchange, body: dict[str, Any]) -> cache.Entry:
    frames = b"".join(map(sse.frame, answer.frames(body)))
    usage = answer.usage_frame(body)
    return cache.Entry(
        stored_at=int(x.ports.clock.wall_s()),
        input_tokens=x.account.input_tokens,
        output_tokens=x.account.output_tokens,
        body=prompt.dump(body),
        frames=frames,
        usage_frame=sse.frame(usage) if usage else b"",
    )


def _count(x: Exchange, relay: Relay) -> None:
    usage = relay.usage or {}
    x.account.input_tokens = _whole_number(usage.get("prompt_tokens"))
    x.account.output_tokens = _whole_number(usage.get("completion_tokens"))
    if x.account.far_trips:
        x.account.engine = relay.metrics


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _record_frame(x: Exchange, head: dict[str, Any]) -> bytes:
    chunk = {
        "id": head.get("id", x.account.request_id),
        "object": "chat.completion.chunk",
        "created": head.get("created", 0),
        "model": head.get("model", ""),
        "choices": [],
        "nearfar": x.account.record(),
    }
    return sse.frame(prompt.dump(chunk))


def _answer_headers(x: Exchange) -> tuple[tuple[str, str], ...]:
    timing = ("server-timing", x.account.server_timing())
    return (*common_headers(x), ("x-cache", x.account.cache), timing)


def log(x: Exchange) -> None:
    """Write the request's line."""
    tenant = x.claims.tenant if x.claims else None
    x.ports.log(account.log_line(x.account.record(), x.ports.clock.wall_s(), tenant))


