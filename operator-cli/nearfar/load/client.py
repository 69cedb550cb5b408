"""The client that measures one streamed request. aiohttp carries it: docs/decisions/0012."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

import aiohttp

from nearfar.exchange import Edge
from nearfar.load.prompt import Prompt
from nearfar.load.reading import Reading, failure
from nearfar.runs.sample import Failure, Outcome, Phase, Sample

# Larger reads than a kernel's socket buffer give nothing; an answer's chunk is far smaller.
_READ_BYTES = 1 << 16
_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One request to be sent. `due_s` counts from the run's start; None in a closed loop."""

    i: int
    prompt: Prompt
    body: bytes = field(repr=False)
    due_s: float | None = None
    phase: Phase = "measured"
    block: int = 0
    arm: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How requests are sent: the account of time asked for or not, patience, headers besides."""

    trace: bool = True
    timeout_s: float = 180.0
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = False


@dataclass(slots=True)
class _Seen:
    """Instants of one request on the run's clock, and what its head said."""

    sent_s: float
    headers_s: float | None = None
    status: int | None = None
    connection: str | None = None
    x_cache: str | None = None
    request_id: str | None = None
    reading: Reading = field(default_factory=Reading)


class Client:
    """Sends requests to one edge over kept connections, as many as there are at once."""

    def __init__(self, edge: Edge, manner: Manner, zero: float) -> None:
        """`zero` is the run's start on time.perf_counter."""
        self.manner = manner
        self._url = edge.url(_PATH)
        self._zero = zero
        self._headers = {
            "authorization": f"Bearer {edge.api_key}",
            "content-type": "application/json",
            "accept": "text/event-stream",
            **({"x-nearfar-trace": "1"} if manner.trace else {}),
            **manner.headers,
        }
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Created inside the loop. No bound on connections: the load says how many there are.
        # Proxies of the environment are for other places.
        tracing = aiohttp.TraceConfig()
        tracing.on_connection_create_start.append(_is_new)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=None),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self.manner.timeout_s, connect=10.0),
            trace_configs=[tracing],
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def now_s(self) -> float:
        """The instant on the run's clock."""
        return time.perf_counter() - self._zero

    async def ask(self, shot: Shot) -> Sample:
        """Send one request and read its whole answer; a failure of any kind is a sample too.

        A cancelled request is the sample `aborted`: it was the operator who ended it.
        """
        seen = _Seen(self.now_s())
        outcome: Outcome
        try:
            failed = await self._exchange(shot, seen)
            outcome = seen.reading.outcome() if failed is None else "refused"
            failed = failed or seen.reading.failure
            if outcome == "cut":
                failed = Failure("ended_without_done", "client")
        except asyncio.CancelledError:
            outcome, failed = "aborted", Failure("interrupted", "client")
        except TimeoutError:
            outcome, failed = "failed", Failure("timeout", "client")
        except aiohttp.ClientConnectorError as error:
            outcome, failed = "failed", Failure(type(error.os_error).__name__, "client")
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
            outcome, failed = _broken(seen), Failure(type(error).__name__, "client")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            outcome, failed = "failed", Failure(type(error).__name__, "client")
        return self._sample(shot, seen, outcome, failed)

    async def _exchange(self, shot: Shot, seen: _Seen) -> Failure | None:
        """Send once more where the server had closed a kept connection: it may at any time."""
        try:
            return await self._once(shot, seen)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if seen.headers_s is not None or seen.connection == "new":
                raise
            return await self._once(shot, seen)

    async def _once(self, shot: Shot, seen: _Seen) -> Failure | None:
        """Returns the error object of a refusal."""
        assert self._session is not None  # noqa: S101 - used inside `async with`
        async with self._session.post(
            self._url, data=shot.body, trace_request_ctx=seen, allow_redirects=False
        ) as response:
            seen.headers_s = self.now_s()
            seen.status = response.status
            seen.connection = seen.connection or "reused"
            seen.x_cache = response.headers.get("x-cache")
            seen.request_id = response.headers.get("x-request-id")
            if response.status != 200:
                return await _refusal(response)
            feed, now, zero = seen.reading.feed, time.perf_counter, self._zero
            while data := await response.content.readany():
                feed(data, now() - zero)
        return None

    def _sample(self, shot: Shot, seen: _Seen, outcome: Outcome, failed: Failure | None) -> Sample:
        reading = seen.reading
        end_s = self.now_s()
        keep = self.manner.keep_text
        return Sample(
            i=shot.i,
            block=shot.block,
            phase=shot.phase,
            arm=shot.arm,
            scheduled_s=_rounded(shot.due_s),
            sent_s=round(seen.sent_s, 7),
            headers_s=_rounded(seen.headers_s),
            first_content_s=_rounded(reading.first_content_s),
            first_answer_s=_rounded(reading.first_answer_s),
            last_content_s=_rounded(reading.last_content_s),
            end_s=round(end_s, 7),
            gaps_ms=tuple(reading.gaps_ms),
            connection="new" if seen.connection == "new" else "reused" if seen.connection else None,
            status=seen.status,
            outcome=outcome,
            error=failed,
            finish_reason=reading.finish_reason,
            usage=reading.usage,
            x_cache=seen.x_cache,
            request_id=seen.request_id or reading.answer_id,
            prompt_id=shot.prompt.id,
            category=shot.prompt.category,
            answer_sha256=reading.sha256,
            record=reading.record,
            not_available=_missing(shot, seen, outcome),
            prompt=shot.prompt.text if keep else None,
            answer=reading.text if keep else None,
            expected=shot.prompt.expected,
        )


async def _is_new(_: Any, context: SimpleNamespace, __: Any) -> None:
    context.trace_request_ctx.connection = "new"


async def _refusal(response: aiohttp.ClientResponse) -> Failure:
    data = await response.content.read(_READ_BYTES)
    try:
        return failure(json.loads(data))
    except ValueError:
        return Failure(f"status_{response.status}", "")


def _broken(seen: _Seen) -> Outcome:
    """A connection that ended in the middle of an answer has cut it."""
    return "failed" if seen.headers_s is None else "cut"


def _rounded(at_s: float | None) -> float | None:
    """A tenth of a microsecond is below what the clock and the loop can tell apart."""
    return None if at_s is None else round(at_s, 7)


def _missing(shot: Shot, seen: _Seen, outcome: Outcome) -> dict[str, str]:
    """Why what was not observed was not."""
    reading = seen.reading
    ended = {
        "ok": "the answer had none",
        "empty": "the answer had no content",
        "refused": "the request was refused",
        "failed": "the request failed before",
        "aborted": "the request was ended before",
        "cut": "the stream broke off before",
    }[outcome]
    values = {
        "headers_s": seen.headers_s,
        "first_content_s": reading.first_content_s,
        "first_answer_s": reading.first_answer_s,
        "last_content_s": reading.last_content_s,
    }
    missing = {name: ended for name, value in values.items() if value is None}
    if shot.due_s is None:
        missing["scheduled_s"] = "none is due in a closed loop"
    if reading.usage is None:
        missing["usage"] = "the server gave none" if outcome in ("ok", "empty") else ended
    if reading.record is None:
        missing["record"] = "the server gave none" if outcome in ("ok", "empty") else ended
    return missing
