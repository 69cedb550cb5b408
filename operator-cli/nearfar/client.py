"""A chat client of the edge that notes instants on its own clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from edge_frontend import sse
from nearfar.errors import Missing
from nearfar.exchange import Edge, check, mapped_errors, refused, session_of
from nearfar.record import ClientLane, Record, merged

OnText = Callable[[str], None]

_NOTED = {
    "connection.connect_tcp.complete": "connected_ms",
    "connection.start_tls.complete": "tls_ms",
    "http11.receive_response_headers.complete": "first_byte_ms",
    "http2.receive_response_headers.complete": "first_byte_ms",
}
_CONTENT = ("content", "reasoning", "reasoning_content", "tool_calls")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. `temperature` None leaves it to the model server."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    temperature: float | None = None
    max_tokens: int | None = None
    trace: bool = False

    def body(self) -> dict[str, Any]:
        """The request's body."""
        found: dict[str, Any] = {
            "model": self.model,
            "messages": list(self.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.temperature is not None:
            found["temperature"] = self.temperature
        if self.max_tokens is not None:
            found["max_tokens"] = self.max_tokens
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `cache` is the x-cache header, `record` None unless a trace was asked."""

    text: str
    finish_reason: str | None
    usage: Mapping[str, Any] | None
    cache: str
    request_id: str
    client: ClientLane
    record: Record | None

    @property
    def cut(self) -> str:
        """Where the answer was cut at its limit of tokens; empty for one that came to its end."""
        if self.finish_reason != "length":
            return ""
        tokens = (self.usage or {}).get("completion_tokens")
        return "cut at its limit of tokens" if tokens is None else f"cut at {tokens} tokens"


@dataclass(slots=True)
class _Reading:
    """What a stream has given so far; `began` is the lane's zero, in seconds of the clock."""

    began: float
    noted: dict[str, float] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    done: bool = False

    def now_ms(self) -> float:
        return round((time.perf_counter() - self.began) * 1000, 3)

    def note(self, event: str, _info: Mapping[str, Any]) -> None:
        """Keep the instant of one of httpx's trace events."""
        if event in _NOTED:
            self.noted[_NOTED[event]] = self.now_ms()

    def take(self, payload: bytes, on_text: OnText) -> None:
        """Read one event of the stream."""
        if payload == sse.DONE:
            self.done = True
            return
        chunk = json.loads(payload)
        if "error" in chunk:
            raise refused(0, chunk["error"])
        self.usage = chunk.get("usage") or self.usage
        self.record = chunk.get("nearfar") or self.record
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            if any(delta.get(name) for name in _CONTENT):
                self.noted.setdefault("first_content_ms", self.now_ms())
            if delta.get("content"):
                self.text.append(delta["content"])
                on_text(delta["content"])


def ask(
    edge: Edge, question: Question, on_text: OnText, client: httpx.Client | None = None
) -> Answer:
    """Stream one answer; `on_text` gets each piece of it as it comes.

    Raises:
        Refused: the edge answered with an error, before or in the stream.
        Missing: nothing answers at the endpoint.
    """
    headers = {"authorization": f"Bearer {edge.api_key}"}
    if question.trace:
        headers["x-nearfar-trace"] = "1"
    with session_of(client) as session, mapped_errors(edge):
        # A session loads certificates; the lane begins after that, with the request itself.
        reading = _Reading(time.perf_counter())
        with session.stream(
            "POST",
            edge.url("/v1/chat/completions"),
            json=question.body(),
            headers=headers,
            extensions={"trace": reading.note},
        ) as response:
            check(response)
            for payload in _payloads(response):
                reading.take(payload, on_text)
            reading.noted["end_ms"] = reading.now_ms()
        if not reading.done:
            raise Missing("The answer broke off before its end.", "look at the edge's log.")
        return _answer(edge, response, reading)


def _answer(edge: Edge, response: httpx.Response, reading: _Reading) -> Answer:
    lane = ClientLane(**reading.noted)
    record = merged(reading.record, lane, secure=edge.secure) if reading.record else None
    return Answer(
        text="".join(reading.text),
        finish_reason=reading.finish_reason,
        usage=reading.usage,
        cache=response.headers.get("x-cache", ""),
        request_id=response.headers.get("x-request-id", ""),
        client=lane,
        record=record,
    )


def _payloads(response: httpx.Response) -> Iterator[bytes]:
    parser = sse.Parser()
    for data in response.iter_bytes():
        yield from parser.feed(data)
