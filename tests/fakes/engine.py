"""A fake: a tiny engine as an ASGI application, and a gate around it in a real uvicorn.

No model runs here. It answers as vLLM 0.32 does on the wire; the request's JSON body says how:
`tokens`, `gap_ms`, `stream`, `usage` (final, continuous, none), `status`, `choices`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from gpu_backend.gate import Gate
from gpu_backend.gate.answers import Message, Receive, Scope, Send
from gpu_backend.gate.settings import Settings
from gpu_backend.grant import HEADER, Grant, Limits, mint

SECRET = b"a secret for tests that is long enough"
PROMPT_TOKENS = 7

_counter = itertools.count()


class Engine:
    """The application. `seen` holds the headers of each request, `sent` the bytes it answered.

    For a long run, `keep` lets it forget both.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.keep = keep
        self.seen: list[dict[str, str]] = []
        self.sent: list[bytes] = []
        self.running = 0
        self.peak = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if not self.keep:
            self.seen.clear()
            self.sent.clear()
        self.seen.append({k.decode(): v.decode() for k, v in scope["headers"]})
        asked = json.loads(await _body(receive) or b"{}")
        self.running += 1
        self.peak = max(self.peak, self.running)
        answering = asyncio.create_task(self._answer(asked, send))
        watching = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait([answering, watching], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering
        finally:
            self.running -= 1
            answering.cancel()
            watching.cancel()

    async def _answer(self, asked: dict[str, Any], send: Send) -> None:
        status, tokens, gap_ms = (
            asked.get("status", 200),
            asked.get("tokens", min(3, asked.get("max_tokens", 3))),
            asked.get("gap_ms"),
        )
        if asked.get("crash"):
            raise RuntimeError("as asked")
        if status != 200:
            await _whole(send, status, b'{"error":{"message":"no"}}')
        elif asked.get("stream"):
            await self._stream(tokens, gap_ms, asked.get("usage", "final"), send)
        else:
            await asyncio.sleep((gap_ms or 0) * tokens / 1000)
            text = 'say \\"usage\\":{\\"completion_tokens\\":999}'
            body = '{"choices":[{"message":{"content":"%s"}}],"usage":%s,"metrics":null}'
            self.sent.append((body % (text, json.dumps(usage(tokens)))).encode())
            await _whole(send, 200, self.sent[-1])

    async def _stream(self, tokens: int, gap_ms: int | None, kind: str, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-of", b"engine")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in events(tokens, kind):
            self.sent.append(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            if gap_ms:
                await asyncio.sleep(gap_ms / 1000)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def usage(tokens: int) -> dict[str, Any]:
    """The usage of an answer of so many tokens."""
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


def events(tokens: int, kind: str) -> list[bytes]:
    """A stream as vLLM sends it: role, one event a token, usage if asked for, [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f'"usage":{{"é{n}'} for n in range(tokens)]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if kind == "continuous":
        for n, chunk in enumerate(chunks):
            chunk["usage"] = usage(n)
    if kind != "none":
        chunks.append({"choices": [], "usage": usage(tokens)})
    texts = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks]
    return [f"data: {text}\n\n".encode() for text in (*texts, "[DONE]")]


@dataclass(frozen=True, slots=True)
class Served:
    """A gate that listens. `ask` sends one request, with a grant unless told otherwise."""

    gate: Gate
    engine: Engine
    url: str
    client: httpx.AsyncClient = field(repr=False)

    async def ask(
        self, granted: Grant | None = None, path: str = "/v1/chat/completions", **body: Any
    ) -> httpx.Response:
        return await self.client.post(
            self.url + path, json=body, headers=signed(granted or grant())
        )


def grant(name: str = "key", **fields: Any) -> Grant:
    """A fresh grant of a request id of its own; limits may be given by name."""
    limits = {k: fields.pop(k) for k in ("rpm", "tpm", "par", "month") if k in fields}
    chosen: dict[str, Any] = {
        "issued_s": time.time(),
        "request_id": f"r-{next(_counter)}-{time.time_ns()}",
        "tenant": "acme",
        "key": name,
        "limits": Limits(**limits),
        "input_tokens": 5,
        "output_tokens": 20,
    }
    return Grant(**(chosen | fields))


def signed(granted: Grant, secret: bytes = SECRET) -> dict[str, str]:
    """The header that carries a grant."""
    return {HEADER.decode(): mint(granted, secret)}


@contextlib.asynccontextmanager
async def serve(settings: Settings) -> AsyncIterator[Served]:
    """A gate around a new engine in a uvicorn of its own on a free port."""
    engine = Engine()
    gate = Gate(engine, settings)
    async with listening(gate) as url, httpx.AsyncClient(timeout=20) as client:
        yield Served(gate, engine, url, client)


@contextlib.asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Any ASGI application in a real server; gives its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="on")
        server = _Server(config)
        running = asyncio.create_task(server.serve([bound]))
        await until(lambda: server.started or running.done())
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """None: the tests' own process is not this server's to end."""
        yield


async def until(holds: Callable[[], bool], within_s: float = 5.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        await asyncio.sleep(0.005)


async def _body(receive: Receive) -> bytes:
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})
