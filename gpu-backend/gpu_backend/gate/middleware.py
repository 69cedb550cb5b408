"""The gate itself, an ASGI middleware: who may come in, how much, and what is counted after.

    vllm ... --middleware gpu_backend.gate.Gate

It reads as a request's way: grant → places at the engine → limits → engine → settlement. The
answer's bytes pass as they are; headers are added to its head.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import time
from dataclasses import dataclass, field

from gpu_backend.gate import answers, metrics, settings
from gpu_backend.gate.answers import Application, Headers, Message, Receive, Refusal, Scope, Send
from gpu_backend.gate.limiter import SETTLED_WITHIN_S, Hold, Limiter
from gpu_backend.gate.load import Load, Seat
from gpu_backend.gate.meter import Meter
from gpu_backend.gate.redis_limits import limits_of
from gpu_backend.gate.settings import Settings
from gpu_backend.grant import HEADER, Grant, GrantError, verify

# What computes nothing; everything else needs a grant. vLLM serves inference under many paths,
# and several of them ask for no key.
FREE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# What the cluster asks without a key: is it alive, and what does it count.
OPEN_PATHS = frozenset({"/health", "/metrics", metrics.PATH})

log = logging.getLogger("gpu_backend.gate")


class Gate:
    """An ASGI application around another. Without settings it reads them from the environment.

    Raises:
        SettingsError: the environment holds settings that are not valid.
    """

    def __init__(self, app: Application, chosen: Settings | None = None) -> None:
        self.app = app
        self.settings = chosen or settings.from_environment(os.environ)
        self.load = Load(self.settings.max_running, self.settings.max_waiting, time.monotonic)
        self.limiter = Limiter(self.settings)
        self.metrics = metrics.Metrics()
        if not self.settings.secrets:
            log.warning("The gate is off: NEARFAR_GATE_SECRET is not set. Everything passes.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, self._closing(send))
        elif scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", metrics.PATH):
            await metrics.answer(self.metrics.text(self.load, self.limiter.redis_up), send)
        elif not self.settings.secrets and self.settings.api_key is None:
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await _turn_away(receive, send)
        elif not _knows_key(scope, self.settings.api_key):
            refusal = answers.Unauthorized("The request carries no valid API key.")
            self.metrics.refused(refusal)
            await answers.refuse(refusal, self.load.header(), send)
        elif not self.settings.secrets or scope["method"] in FREE_METHODS:
            await self.app(scope, receive, send)
        else:
            await self._admit(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            passage = await self._enter(scope)
        except Refusal as refusal:
            await answers.refuse(refusal, self.load.header(), send)
            return
        try:
            await self.app(passage.scope, receive, passage.sending(send))
        except Refusal as refusal:
            passage.failed(refusal.status)
            await answers.refuse(refusal, self.load.header(), send)
        except Exception:
            passage.failed(500)
            raise
        finally:
            passage.leave()

    async def _enter(self, scope: Scope) -> Passage:
        """Let a request in, or raise the Refusal that it gets."""
        grant = self._read(scope)
        try:
            seat = self.load.take(grant.tenant, grant.priority, grant.choices)
        except Refusal as refusal:
            self.metrics.refused(refusal, grant)
            self.limiter.note_hits(grant)
            raise
        try:
            hold = await self.limiter.reserve(grant)
        except BaseException as error:
            self.load.give_back(seat, served=False)
            if isinstance(error, Refusal):
                self.metrics.refused(error, grant)
            raise
        return Passage(self, _without_grant(scope), grant, seat, hold)

    def _read(self, scope: Scope) -> Grant:
        try:
            return _grant(scope, self.settings.secrets)
        except Refusal as refusal:
            self.metrics.refused(refusal)
            raise

    def _closing(self, send: Send) -> Send:
        async def passing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown"):
                await self.limiter.close()
            await send(message)

        return passing


@dataclass(slots=True)
class Passage:
    """One request that was let in, until it has left again."""

    gate: Gate
    scope: Scope
    grant: Grant
    seat: Seat
    hold: Hold
    meter: Meter = field(default_factory=Meter)
    ended: bool = False
    _taken: asyncio.Future[None] | None = None
    _left: bool = False

    def sending(self, send: Send) -> Send:
        """`send` for the engine: it adds headers to the head and looks at what passes."""
        meter = self.meter

        async def passing(message: Message) -> None:
            kind = message["type"]
            if kind == "http.response.body":
                meter.feed(message.get("body", b""))
                if not message.get("more_body", False):
                    self.ended = True
                    await self._free()
            elif kind == "http.response.start":
                message = {**message, "headers": self._headers(message)}
            await send(message)

        return passing

    def failed(self, status: int) -> None:
        """Note that the engine gave no answer at all; one that broke off is no such failure."""
        if not self.meter.status:
            self.meter.head(status, [])
            self.ended = True

    def leave(self) -> None:
        """Give back what is held and settle, however the request ended; safe to call twice."""
        if self._left:
            return
        self._left = True
        outcome = self.meter.outcome(
            ended=self.ended,
            input_estimate=self.grant.input_tokens,
            generated_estimate=self._generated_estimate(),
        )
        served = self.ended and not outcome.failed
        self.gate.load.give_back(
            self.seat, served=served, tokens=outcome.generated if outcome.exact else 0
        )
        self.gate.metrics.answered(self.grant, outcome)
        self._taken = self.gate.limiter.settle(self.hold, outcome)

    async def _free(self) -> None:
        """Before the answer's end leaves: the client's next request must find the slot free."""
        self.leave()
        is_counted = any(limits.par is not None for limits in limits_of(self.grant))
        if self._taken is not None and is_counted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLED_WITHIN_S):
                    await asyncio.shield(self._taken)

    def _headers(self, message: Message) -> Headers:
        """The engine's headers and ours; a full engine's 503 gets the Retry-After it lacks."""
        status: int = message["status"]
        headers: Headers = list(message.get("headers", ()))
        self.meter.head(status, headers)
        if status in (429, 503) and not any(name.lower() == b"retry-after" for name, _ in headers):
            headers.append(answers.retry_after(self.gate.load.retry_after_s()))
        headers.append((b"x-nearfar-load", self.gate.load.header()))
        return headers + answers.rate_headers(self.hold.standing)

    def _generated_estimate(self) -> int:
        """For an answer of one piece that never came: the time it ran at the usual speed."""
        speed = self.gate.load.tokens_per_s or 0.0
        ran_s = time.monotonic() - self.seat.taken_s
        return min(self.grant.output_tokens, round(speed * ran_s))


def _grant(scope: Scope, secrets: tuple[bytes, ...]) -> Grant:
    given = [value for name, value in scope["headers"] if name == HEADER]
    try:
        return verify(given[0] if len(given) == 1 else b"", secrets, time.time())
    except GrantError as error:
        raise answers.Unauthorized(str(error)) from error


def _knows_key(scope: Scope, key: bytes | None) -> bool:
    """Whether the request has the bearer key, where one is asked for."""
    if key is None:
        return True
    if scope["method"] in FREE_METHODS and scope["path"] in OPEN_PATHS:
        return True
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(given) == 1 and hmac.compare_digest(given[0], b"Bearer " + key)


def _without_grant(scope: Scope) -> Scope:
    """The request as the engine sees it: a grant is for the gate alone."""
    kept = [(name, value) for name, value in scope["headers"] if name != HEADER]
    return {**scope, "headers": kept}


async def _turn_away(receive: Receive, send: Send) -> None:
    """Refuse a WebSocket: no grant covers what would come over it."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
