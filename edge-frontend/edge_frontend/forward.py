"""Forward: the one far call of a request, with allow-listed headers and the upstream's own key."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from . import admission, grant, headers, hits, prompt, rate, untrusted
from .errors import (
    BudgetSpent,
    ContextTooLong,
    EdgeError,
    ParallelLimited,
    RateLimited,
    Unauthorized,
    UpstreamBusy,
    UpstreamError,
    UpstreamRejected,
    UpstreamTimeout,
)
from .exchange import Exchange
from .ports import Answer, Call
from .routes import Route, Upstream

MAX_ERROR_BYTES = 64_000
MAX_MESSAGE_CHARS = 500
_DAY_S = 86_400
_MONTH_S = 31 * _DAY_S
REQUESTS_OWN_FAULT = frozenset({400, 413, 422})
# The gate's own refusals, told apart by their code; docs/gate.md lists them.
GATES_OWN = frozenset({403, 429})
LIMITS = {
    RateLimited: "The requests or tokens a minute of this key or its tenant are used up.",
    ParallelLimited: "This key or its tenant has as many requests under way as it may.",
    BudgetSpent: "The tokens of this month are used up.",
}
# Refusals of a grant that was not looked into, or was before: its report of hits did not count.
UNREAD = frozenset({401, 409})
LAST_WORD_MS = 500  # kept back from the host's deadline to say that it came


def call(x: Exchange, route: Route, fields: dict[str, Any]) -> Call:
    """The request to the model server of a route."""
    body = prompt.dump(fields)
    granted = _grant(x, fields) if x.settings.gate_secret else ()
    return _call(x, route.upstream, "/v1/chat/completions", body, b"text/event-stream", *granted)


def probe(x: Exchange, upstream: Upstream) -> Call:
    """A request that any OpenAI-compatible server answers at once; its method is GET."""
    return _call(x, upstream, "/v1/models", b"", b"application/json")


async def send(x: Exchange, upstream: str, request: Call) -> Answer:
    """Send it, and answer only with a success.

    Raises:
        UpstreamError: of the kind that fits; what the server said stays here, except the message
            of a request's own fault.
    """
    x.account.far_trips += 1
    answer = await x.ports.upstream.send(request)
    if x.settings.gate_secret:
        _hear(x, upstream, answer)
    if answer.status == 200:
        return answer
    raise await _refusal(x, answer)


def is_stream(answer: Answer) -> bool:
    """Whether the answer comes as events."""
    return headers.first(answer.headers, "content-type").lower().startswith("text/event-stream")


def _grant(x: Exchange, fields: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    if x.claims is None:
        return ()
    told = x.hits or hits.Hits()
    choices = fields.get("n") or 1
    most = fields.get("max_completion_tokens") or fields.get("max_tokens") or 0
    value = grant.mint(
        x.settings.gate_secret,
        x.claims,
        request_id=x.account.request_id,
        issued_s=x.ports.clock.wall_s(),
        estimate_tokens=(prompt.ample_tokens(fields["messages"]), most * choices),
        choices=choices,
        hits=(told.unreported, told.unreported_tokens),
        tenant_limits=x.tenant_limits,
    )
    return ((grant.HEADER, value),)


def _hear(x: Exchange, upstream: str, answer: Answer) -> None:
    """What the gate says beside the answer: what is left, and how full the model server is."""
    told = tuple(
        (name, value.decode("latin-1"))
        for name, value in answer.headers
        if name in headers.PASSED and value.isascii()
    )
    x.passed += rate.tighter(x, told)
    admission.heard(x, upstream, headers.first(answer.headers, "x-nearfar-load"))
    if answer.status not in UNREAD:
        hits.told(x)


def _call(
    x: Exchange,
    upstream: Upstream,
    path: str,
    body: bytes,
    accept: bytes,
    *more: tuple[str, bytes],
) -> Call:
    key = x.settings.upstream_keys.get(upstream.name)
    head = [
        ("accept", accept),
        ("content-type", b"application/json"),
        ("content-length", str(len(body)).encode()),
        ("traceparent", x.trace.header().encode()),
        ("x-request-id", x.account.request_id.encode()),
    ]
    if key:
        head.append(("authorization", b"Bearer " + key.encode()))
    head += more
    first_byte_ms = x.settings.first_byte_timeout_ms
    if x.settings.deadline_ms:
        first_byte_ms = max(1, min(first_byte_ms, int(admission.left_ms(x)) - LAST_WORD_MS))
    return Call(
        scheme=upstream.scheme,
        authority=upstream.authority,
        path=upstream.path + path,
        headers=tuple(head),
        body=body,
        connect_timeout_ms=x.settings.connect_timeout_ms,
        first_byte_timeout_ms=first_byte_ms,
        between_bytes_timeout_ms=x.settings.between_bytes_timeout_ms,
    )


async def _refusal(x: Exchange, answer: Answer) -> EdgeError:
    status = answer.status
    if status in REQUESTS_OWN_FAULT:
        return _own_fault(x, status, await _message(answer))
    if status in GATES_OWN and x.settings.gate_secret:
        code = await _error_field(answer, "code")
        if code == "key_revoked":
            return Unauthorized("The API key is not valid or has expired.")
        for kind, text in LIMITS.items():
            if code == kind.code:
                wait_s = retry_after_s(answer, x.ports.clock.wall_s(), _MONTH_S)
                return kind(text, headers=(("retry-after", str(wait_s)),))
    answer.body.close()
    if status in (429, 503):
        retry = ("retry-after", str(retry_after_s(answer, x.ports.clock.wall_s())))
        text = "The model server is full; try again later."
        return UpstreamBusy(text, status=status, headers=(retry,))
    if status in (408, 504):
        return UpstreamTimeout("The model server did not answer in time.")
    if status in (401, 403, 404):
        return UpstreamError("The model server refused the edge's own credentials or model.")
    return UpstreamError("The model server failed.")


def _own_fault(x: Exchange, status: int, message: str) -> EdgeError:
    if any(key and key in message for key in x.settings.upstream_keys.values()):
        message = ""
    text = message[:MAX_MESSAGE_CHARS] or "The model server refused the request."
    if "context length" in text:
        return ContextTooLong(text, param="messages")
    return UpstreamRejected(text, status=status)


def retry_after_s(answer: Answer, now_s: float, most_s: int = _DAY_S) -> int:
    """The server's Retry-After in whole seconds, at least 1; seconds or an HTTP date (RFC 9110)."""
    value = headers.first(answer.headers, "retry-after").strip()
    if value.isascii() and value.isdigit():
        # More digits than a month has are the most: Python reads no number of thousands of digits.
        return max(1, min(int(value), most_s)) if len(value) <= 7 else most_s
    try:
        at = parsedate_to_datetime(value)
        # A date without a zone is GMT, as all of HTTP's are.
        left = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now_s
    except (ValueError, OverflowError):
        return 1
    return max(1, min(math.ceil(left), most_s))


async def _message(answer: Answer) -> str:
    """The message of an OpenAI error object; empty when there is none."""
    return await _error_field(answer, "message")


async def _error_field(answer: Answer, name: str) -> str:
    body = bytearray()
    try:
        while len(body) < MAX_ERROR_BYTES and (data := await answer.body.read()):
            body += data
        document = untrusted.loads(bytes(body))
        message = document.get("error", document).get(name)
    except (EdgeError, ValueError, AttributeError):
        return ""
    finally:
        answer.body.close()
    return message if isinstance(message, str) else ""
