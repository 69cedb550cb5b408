"""Stream back: as a stream or as one body, from the model server or from the cache."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from . import account, cache, flight, hits, prompt, sse, untrusted
from .carriage import Again, Carriage
from .errors import EdgeError
from .exchange import Exchange
from .ports import Answer, Reply, Sink, Source
from .request import ChatRequest

# A client that wants one body gets its head once this has passed since the model server's head:
# until then a failure is still a status, from then on a client that left is noticed.
HOLD_HEAD_MS = 500
_STREAM = (("content-type", "text/event-stream; charset=utf-8"),)
_JSON = (("content-type", "application/json"),)
_DONE = sse.frame(sse.DONE)

Head = tuple[tuple[str, str], ...]


def common_headers(x: Exchange) -> Head:
    """What every reply carries."""
    return (("x-request-id", x.account.request_id), ("cache-control", "no-store"))


def replay(x: Exchange, request: ChatRequest, entry: cache.Entry, traced: bool) -> Reply:
    """Send a kept answer, as a stream or as one body, whichever was asked."""
    x.account.input_tokens, x.account.output_tokens = entry.input_tokens, entry.output_tokens
    age = max(0, int(x.ports.clock.wall_s()) - entry.stored_at)
    return _send_entry(x, request, entry, (("age", str(age)),), traced)


async def stream_back(
    x: Exchange,
    request: ChatRequest,
    source: Source,
    lead: flight.Lead | None,
    traced: bool,
    again: Again | None = None,
) -> Reply:
    """Carry the events of a source to the client.

    `again` gives another source, should this one break off while nothing has gone to the client.
    """
    carriage = Carriage(x, request, source, lead, again)
    if not request.stream:
        return await _collect(x, carriage, traced)

    async def produce(sink: Sink) -> None:
        carriage.watch(sink)
        try:
            await carriage.stream(sink)
        except EdgeError as error:
            _failed(x, carriage, error)
            await sink.write(sse.frame(error.body()))
        else:
            x.mark("stream", "t6")
            await sink.write((_record_frame(x, carriage.head) if traced else b"") + _DONE)
        await carriage.finish()
        await end(x)

    x.account.status = 200
    return Reply(200, (*_answer_headers(x), *_STREAM), produce)


async def pass_whole(
    x: Exchange, request: ChatRequest, answer: Answer, lead: flight.Lead | None, traced: bool
) -> Reply:
    """Pass on an answer that the model server gave in one body."""
    carriage = Carriage(x, request, answer.body, lead)
    try:
        entry = await carriage.read_whole()
    finally:
        await carriage.finish()
    return _send_entry(x, request, entry, (), traced)


async def end(x: Exchange) -> None:
    """The reply has gone: tell the store what it should know, and write the request's line."""
    if x.account.cache in ("hit", "shared") and x.account.error is None:
        hits.count(x, x.account.output_tokens)
    await x.settle()
    log(x)


def log(x: Exchange) -> None:
    """Write the request's line."""
    tenant = x.claims.tenant if x.claims else None
    record, now_s = x.account.record(), x.ports.clock.wall_s()
    x.ports.log(account.log_line(record, now_s, tenant, x.client()))


async def _collect(x: Exchange, carriage: Carriage, traced: bool) -> Reply:
    """One body: whole with its status if it is quick, else behind an early head."""
    gathering = asyncio.ensure_future(carriage.gather())
    held_long_enough = asyncio.get_running_loop().create_future()
    alarm = x.ports.clock.after_ms(HOLD_HEAD_MS, lambda: held_long_enough.set_result(None))
    await asyncio.wait((gathering, held_long_enough), return_when=asyncio.FIRST_COMPLETED)
    alarm.let_go()
    x.account.status = 200
    if gathering.done():
        if gathering.exception() is not None:
            await carriage.finish()
        return _whole(x, gathering.result(), (), traced, carriage)
    head = _answer_headers(x)

    async def produce(sink: Sink) -> None:
        carriage.watch(sink)
        try:
            await _send_whole(x, sink, await gathering, traced)
        except EdgeError as error:
            _failed(x, carriage, error)
            await sink.write(error.body())
            sink.abort()
        await carriage.finish()
        await end(x)

    return Reply(200, (*head, *_JSON), produce)


def _send_entry(
    x: Exchange, request: ChatRequest, entry: cache.Entry, head: Head, traced: bool
) -> Reply:
    x.account.status = 200
    if not request.stream:
        return _whole(x, entry.body, head, traced, None)
    frames = entry.frames + (entry.usage_frame if request.wants_usage else b"")

    async def produce(sink: Sink) -> None:
        if traced:
            await sink.write(frames)
            _sent(x)
            await sink.write(_record_frame(x, untrusted.loads(entry.body)) + _DONE)
        else:
            await sink.write(frames + _DONE)
            _sent(x)
        await end(x)

    return Reply(200, (*_answer_headers(x), *head, *_STREAM), produce)


def _whole(x: Exchange, body: bytes, head: Head, traced: bool, carriage: Carriage | None) -> Reply:
    async def produce(sink: Sink) -> None:
        await _send_whole(x, sink, body, traced)
        if carriage is not None:
            await carriage.finish()
        await end(x)

    length = () if traced else (("content-length", str(len(body))),)
    return Reply(200, (*_answer_headers(x), *head, *_JSON, *length), produce)


async def _send_whole(x: Exchange, sink: Sink, body: bytes, traced: bool) -> None:
    """Write a JSON object; the record, if asked, is its last field: it says when the rest went."""
    if not traced:
        await sink.write(body)
        _sent(x)
        return
    await sink.write(body[:-1])
    _sent(x)
    record = json.dumps(x.account.record(), separators=(",", ":")).encode()
    await sink.write(b',"nearfar":' + record + b"}")


def _sent(x: Exchange) -> None:
    """First and last content went in one write."""
    x.mark("forward", "t5")
    x.account.instants["t6"] = x.account.instants["t5"]


def _failed(x: Exchange, carriage: Carriage, error: EdgeError) -> None:
    x.account.error = "client_gone" if carriage.client_gone else error.code


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


def _answer_headers(x: Exchange) -> Head:
    timing = ("server-timing", x.account.server_timing())
    return (*common_headers(x), *x.passed, ("x-cache", x.account.cache), timing)
