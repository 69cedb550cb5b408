"""A chat client of the edge that notes instants on its own clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from edge_frontend import sse
from nearfar.errors import BadInput, Missing, NearfarError, Refused
from nearfar.record import ClientLane, Record, merged

OnText = Callable[[str], None]

# The first answer of a cold model can take long; an answer that stands still is given up.
TIMEOUT = httpx.Timeout(10.0, read=180.0)

_NOTED = {
    "connection.connect_tcp.complete": "connected_ms",
    "connection.start_tls.complete": "tls_ms",
    "http11.receive_response_headers.complete": "first_byte_ms",
    "http2.receive_response_headers.complete": "first_byte_ms",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """Where an edge is and the key that it is asked with."""

    endpoint: str
    api_key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise BadInput(
                f"The endpoint {self.endpoint!r} is not a web address.",
                "give one like http://127.0.0.1:3000",
            )

    def url(self, path: str) -> str:
        """The address of a path; the endpoint may be given with or without /v1 at its end."""
        return self.endpoint.rstrip("/").removesuffix("/v1") + path

    @property
    def secure(self) -> bool:
        return self.endpoint.startswith("https://")


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


@dataclass(slots=True)
class _Reading:
    """What a stream has given so far."""

    noted: dict[str, float] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    done: bool = False


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
    reading, began = _Reading(), time.perf_counter()

    def note(name: str, _info: Mapping[str, Any]) -> None:
        if name in _NOTED:
            reading.noted[_NOTED[name]] = _since(began)

    with (
        _session(client) as session,
        mapped_errors(edge),
        session.stream(
            "POST",
            edge.url("/v1/chat/completions"),
            json=question.body(),
            headers=headers,
            extensions={"trace": note},
        ) as response,
    ):
        check(response)
        for payload in _payloads(response):
            _read(reading, payload, on_text, began)
        reading.noted["end_ms"] = _since(began)
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


def _read(reading: _Reading, payload: bytes, on_text: OnText, began: float) -> None:
    if payload == sse.DONE:
        reading.done = True
        return
    chunk = json.loads(payload)
    if "error" in chunk:
        raise _refused(0, chunk["error"])
    reading.usage = chunk.get("usage") or reading.usage
    reading.record = chunk.get("nearfar") or reading.record
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        reading.finish_reason = choice.get("finish_reason") or reading.finish_reason
        if any(
            delta.get(name) for name in ("content", "reasoning", "reasoning_content", "tool_calls")
        ):
            reading.noted.setdefault("first_content_ms", _since(began))
        if delta.get("content"):
            reading.text.append(delta["content"])
            on_text(delta["content"])


def models(edge: Edge) -> list[str]:
    """Return the names of the models that the edge serves."""
    with _session(None) as session, mapped_errors(edge):
        response = session.get(
            edge.url("/v1/models"), headers={"authorization": f"Bearer {edge.api_key}"}
        )
        check(response)
        return [str(entry["id"]) for entry in response.json()["data"]]


def check(response: httpx.Response) -> None:
    """Raise the edge's error object unless the answer is a success."""
    if response.is_success:
        return
    response.read()
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": f"the endpoint answered {response.status_code}, not as an edge does"}
    raise _refused(response.status_code, error)


def _refused(status: int, error: Mapping[str, Any]) -> Refused:
    steps = {
        401: "pass a valid key with --api-key or NEARFAR_API_KEY.",
        403: "make a key that has the permission: ./nearfar keys create --permission NAME",
        404: "see /v1/models of the endpoint for what it serves.",
    }
    message, code = str(error.get("message", "no reason given")), str(error.get("code") or "")
    return Refused(f"The edge refused: {message}", steps.get(status, ""), status=status, code=code)


@contextmanager
def _session(client: httpx.Client | None) -> Iterator[httpx.Client]:
    """Use the given client, which stays open, or one of our own."""
    if client is not None:
        yield client
        return
    # Proxies of the environment are for other places: a local edge is asked directly.
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as own:
        yield own


@contextmanager
def mapped_errors(edge: Edge) -> Iterator[None]:
    """Turn httpx's errors into ours; no message shows a key."""
    try:
        yield
    except httpx.ConnectError as error:
        raise Missing(
            f"Nothing answers at {edge.endpoint}.", "./nearfar status, or check --endpoint."
        ) from error
    except httpx.TimeoutException as error:
        raise Missing(f"{edge.endpoint} did not answer in time.", "./nearfar status") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Missing(
            f"The exchange with {edge.endpoint} failed ({type(error).__name__}).",
            "./nearfar status",
        ) from error
    except (json.JSONDecodeError, sse.EventTooLarge) as error:
        raise NearfarError(
            f"{edge.endpoint} sent something that is not a chat stream.", "check --endpoint."
        ) from error


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
