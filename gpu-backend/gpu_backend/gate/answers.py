"""What the gate says itself: refusals as OpenAI error objects, and the headers of every answer.

Refusal
├── Unauthorized      401  unauthorized              no grant, or not a valid one
├── Revoked           403  key_revoked
├── Replayed          409  grant_replayed            the request id was used before
├── Limited           429  rate_limit_exceeded       requests or tokens a minute
│                          parallel_limit_exceeded, monthly_budget_exceeded
├── Overloaded        503  overloaded                shed: the engine and its queue are full
├── LimitsUnknown     503  limits_unavailable        no Redis, and the policy is `closed`
├── UpstreamFailed    502  upstream_unreachable      only in front of a server (proxy)
└── TooLarge          413  request_too_large         only in front of a server (proxy)
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Window:
    """One limit a minute. `reset_s`: until nothing of it is used if nothing more is sent."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a key's limits; None where it has no such limit."""

    requests: Window | None = None
    tokens: Window | None = None


class Refusal(Exception):
    """The gate's own answer to a request that it does not pass on."""

    status = 500
    type = "server_error"
    code = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        standing: Standing | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s
        self.standing = standing or Standing()

    def body(self) -> bytes:
        """The OpenAI error object, as JSON."""
        error = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        return json.dumps({"error": error}, separators=(",", ":")).encode()


class TooManyChoices(Refusal):
    status = 400
    type = "invalid_request_error"
    code = "too_many_choices"


class Unauthorized(Refusal):
    status = 401
    type = "authentication_error"
    code = "unauthorized"


class Revoked(Refusal):
    status = 403
    type = "permission_error"
    code = "key_revoked"


class Replayed(Refusal):
    status = 409
    type = "invalid_request_error"
    code = "grant_replayed"


class Limited(Refusal):
    status = 429

    def __init__(
        self,
        message: str,
        *,
        type: str,  # noqa: A002 - the name of the error object's field
        code: str,
        retry_after_s: float,
        standing: Standing,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, standing=standing)
        self.type = type
        self.code = code


class Overloaded(Refusal):
    status = 503
    type = "overloaded_error"
    code = "overloaded"


class LimitsUnknown(Refusal):
    status = 503
    code = "limits_unavailable"


class UpstreamFailed(Refusal):
    status = 502
    type = "upstream_error"
    code = "upstream_unreachable"


class TooLarge(Refusal):
    status = 413
    type = "invalid_request_error"
    code = "request_too_large"


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header in whole seconds, at least 1 (RFC 9110, 10.2.3)."""
    return (b"retry-after", str(max(1, math.ceil(seconds))).encode())


def rate_headers(standing: Standing) -> Headers:
    """The field's x-ratelimit-* headers of the limits that the key has."""
    found: Headers = []
    for name, window in ((b"requests", standing.requests), (b"tokens", standing.tokens)):
        if window is not None:
            found += [
                (b"x-ratelimit-limit-" + name, b"%d" % window.limit),
                (b"x-ratelimit-remaining-" + name, b"%d" % window.remaining),
                (b"x-ratelimit-reset-" + name, b"%.6gs" % round(window.reset_s, 3)),
            ]
    return found


async def refuse(refusal: Refusal, load: bytes, send: Send) -> None:
    """Send a refusal with its headers as the whole answer."""
    body = refusal.body()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-nearfar-load", load),
        *rate_headers(refusal.standing),
    ]
    if refusal.retry_after_s is not None:
        headers.append(retry_after(refusal.retry_after_s))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
