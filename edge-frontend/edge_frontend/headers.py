"""Every header the edge reads or writes, and every route it has; docs/http.md has the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

READ = {
    "access-control-request-method": "says that an OPTIONS request is a preflight",
    "authorization": "Bearer API key or token",
    "cache-control": "no-store, no-cache: keep or read no cached answer",
    "content-length": "size of the body",
    "origin": "where a cross-origin request comes from",
    "traceparent": "W3C trace context to continue",
    "x-forwarded-for": "the client's address, where NEARFAR_TRUSTED_HOPS counts proxies of ours",
    "x-nearfar-cache": "use: this answer may be cached though it is not deterministic",
    "x-nearfar-category": "one of the configured categories, for the record",
    "x-nearfar-trace": "1: send the record back",
}
WRITTEN = {
    "access-control-allow-headers": "for a preflight from a configured origin",
    "access-control-allow-methods": "for a preflight from a configured origin",
    "access-control-allow-origin": "for a configured origin",
    "access-control-expose-headers": "for a configured origin",
    "access-control-max-age": "for a preflight from a configured origin",
    "age": "seconds since a cached answer was kept",
    "allow": "methods of the route",
    "cache-control": "no-store",
    "content-length": "size of the body, where it is known",
    "content-type": "application/json or text/event-stream",
    "retry-after": "seconds until a retry makes sense",
    "server-timing": "stages known when the head leaves",
    "vary": "origin, where origins are configured",
    "www-authenticate": "how to authenticate",
    "x-cache": "hit, miss, shared or bypass",
    "x-nearfar-max-tokens": "the output tokens that the host's deadline leaves time for",
    "x-ratelimit-limit-requests": "from the gate, as the next five: the limit a minute",
    "x-ratelimit-limit-tokens": "the limit a minute",
    "x-ratelimit-remaining-requests": "what is left of it",
    "x-ratelimit-remaining-tokens": "what is left of it",
    "x-ratelimit-reset-requests": "seconds until nothing of it is used",
    "x-ratelimit-reset-tokens": "seconds until nothing of it is used",
    "x-request-id": "name of this request in logs and records",
}
READ_FROM_UPSTREAM = {
    "content-type": "text/event-stream, or the answer comes in one body",
    "retry-after": "seconds or an HTTP date, with 429 and 503",
    "x-nearfar-load": "how full the model server is, from the gate",
    "x-ratelimit-*": "what is left of the caller's limits, from the gate",
}
# Headers of the gate that go on to the client: what is left of its limits.
PASSED = frozenset(
    f"x-ratelimit-{what}-{unit}"
    for what in ("limit", "remaining", "reset")
    for unit in ("requests", "tokens")
)
SENT_UPSTREAM = (
    "accept",
    "authorization",
    "content-length",
    "content-type",
    "traceparent",
    "x-nearfar-grant",
    "x-request-id",
)
X_CACHE = {
    "hit": "answered from the cache",
    "miss": "looked up, not there, answered by the model server",
    "shared": "answered by the model call of another, equal request",
    "bypass": "not looked up: not deterministic, asked not to, or there is no store",
}


@dataclass(frozen=True, slots=True)
class Route:
    """One route; `authentication` is none or the permission its key must have."""

    method: str
    path: str
    authentication: str


ROUTES = (
    Route("POST", "/v1/chat/completions", "chat"),
    Route("GET", "/v1/models", "chat"),
    Route("GET", "/healthz", "none"),
    Route("GET", "/readyz", "none"),
    Route("GET", "/openapi.json", "none"),
    Route("GET", "/probe", "trace"),
    Route("GET", "/admin/keys", "admin"),
    Route("PUT", "/admin/keys/{key_id}", "admin"),
    Route("DELETE", "/admin/keys/{key_id}", "admin"),
)


def match(path: str) -> tuple[Route, ...]:
    """The routes of a path, whatever the method."""
    bare = path.partition("?")[0]
    head, _, key_id = bare.rpartition("/")
    if head == "/admin/keys" and key_id:
        bare = "/admin/keys/{key_id}"
    return tuple(route for route in ROUTES if route.path == bare)


def first(headers: Sequence[tuple[str, bytes]], name: str) -> str:
    """The value of a header as text, the first if there are several, empty if there is none."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return ""


def all_of(headers: Sequence[tuple[str, bytes]], name: str) -> list[bytes]:
    """Every value of a header."""
    return [value for key, value in headers if key == name]


def joined(headers: Sequence[tuple[str, bytes]], name: str) -> str:
    """The value of a header that is a list, which may come in several lines (RFC 9110, 5.3)."""
    return b", ".join(all_of(headers, name)).decode("latin-1")
