"""A rehearsal of the request's way while the component is built.

componentize-py freezes the interpreter as it stands after import. One that has already answered
requests, over ports in memory, has its code specialised, its caches filled and its memory laid out,
so that the first request of a new instance costs less (docs/performance.md). Nothing of it is kept:
the settings, keys and answers below are made up here and dropped.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from . import flow, keys, settings
from .exchange import Exchange, Instance
from .limits import Limits
from .ports import (
    Answer,
    Call,
    Claim,
    Get,
    Last,
    Operation,
    Ports,
    Put,
    Reply,
    Result,
    Sink,
    Spend,
)

T = TypeVar("T")
ROUNDS = 24
_SECRET = "a secret of the rehearsal alone, thrown away with it"  # noqa: S105
_ROUTES = {
    "version": "0",
    "upstreams": {"u": {"url": "http://u"}},
    "models": {"m": {"upstream": "u"}},
}
_LOAD = b"in_flight=1;capacity=24;seats=16;queued=0;drain=4.1;speed=14.2"
_CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}'
_ANSWER = [
    _CHUNK % ('{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}', ""),
    _CHUNK % ('{"index":0,"delta":{"content":"word"},"finish_reason":null}', ""),
    _CHUNK % ('{"index":0,"delta":{"content":" and"},"finish_reason":null}', ""),
    _CHUNK % ('{"index":0,"delta":{"content":""},"finish_reason":"stop"}', ""),
    _CHUNK % ("", ',"usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}'),
    "[DONE]",
]


def rehearse() -> None:
    """Answer requests of every common kind, then let the collector leave what there is alone."""
    variables = {"routes": json.dumps(_ROUTES), "key_secret": _SECRET, "upstream_keys": '{"u":"k"}'}
    _answer_all(settings.from_variables(variables))
    with_gate = {
        "gate_secret": _SECRET,
        "deadline_ms": "30000",
        "guardrails": "standard@1",
        "tenants": '{"*":{"rpm":1000}}',
    }
    _answer_all(settings.from_variables(variables | with_gate))
    gc.collect()
    gc.freeze()


def _answer_all(read: settings.Settings) -> None:
    limits = Limits(rpm=1_000)
    claims = keys.Claims("rehearsal", "rehearsal", 10, ("*",), ("chat", "trace"), limits)
    key, stage, instance = keys.mint(_SECRET, claims), _Stage(), Instance()
    for number in range(ROUNDS):
        fields = {"model": "m", "messages": [{"role": "user", "content": f"Say {number % 3}"}]}
        for extra in (
            {"stream": True, "temperature": 0},
            {"stream": True},
            {"temperature": 0, "stream": False},
        ):
            body = json.dumps(fields | extra).encode()
            inbound = _Inbound("POST", "/v1/chat/completions", key, body)
            if not extra["stream"] and number < 3:
                continue  # one body needs a loop unless it is a hit
            _perform(flow.handle(Exchange.begin(inbound, stage.ports, read, instance, 0.0)))


def _perform(answering: Coroutine[Any, Any, Reply]) -> None:
    reply = _drive(answering)
    if not isinstance(reply.body, bytes):
        _drive(reply.body(_Nobody()))


def _drive(work: Awaitable[T]) -> T:
    """Run what never has to wait."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("the rehearsal had to wait")


class _Stage:
    """Every port, in memory."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self.ports = Ports(self, self, self, _same_bytes, len, _drop)  # type: ignore[arg-type]

    def now_ms(self) -> float:
        return 0.0

    def wall_s(self) -> float:
        return 1.0

    async def sleep_ms(self, duration_ms: float) -> None:
        return None

    def after_ms(self, duration_ms: float, then: Callable[[], None]) -> _Stage:
        return self

    def let_go(self) -> None:
        return None

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        results: list[Result] = []
        for operation in operations:
            if isinstance(operation, Get):
                results.append(self._values.get(operation.key))
            elif isinstance(operation, Put):
                self._values[operation.key] = operation.value
                results.append(True)
            elif isinstance(operation, Spend):
                results.append(-1)
            else:
                results.append(
                    not isinstance(operation, Claim) or operation.unless not in self._values
                )
        return results, 1

    async def send(self, call: Call) -> Answer:
        head = (("content-type", b"text/event-stream"), ("x-nearfar-load", _LOAD))
        return Answer(200, head, _Source())


class _Inbound:
    def __init__(self, method: str, path: str, key: str, body: bytes) -> None:
        self.method, self.path, self._body = method, path, body
        self.headers: Sequence[tuple[str, bytes]] = [
            ("host", b"e"),
            ("authorization", b"Bearer " + key.encode()),
        ]

    async def body(self, limit_bytes: int) -> bytes:
        return self._body


class _Source:
    def __init__(self) -> None:
        self._pieces = [f"data: {payload}\n\n".encode() for payload in reversed(_ANSWER)]

    async def read(self) -> bytes:
        return self._pieces.pop() if self._pieces else b""

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        while type(feed(await self.read())) is not Last:
            pass

    def close(self) -> None:
        return None


class _Nobody:
    async def write(self, data: bytes) -> bool:
        return True

    async def is_there(self) -> bool:
        return True

    def abort(self) -> None:
        return None


def _drop(work: Coroutine[Any, Any, None]) -> None:
    work.close()


def _same_bytes(count: int) -> bytes:
    return b"r" * count
