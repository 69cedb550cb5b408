"""Cross-origin requests from the configured origins (WHATWG Fetch, "CORS protocol")."""

from __future__ import annotations

from collections.abc import Sequence

from .headers import PASSED

MAX_AGE_S = 600
_ASKED = (
    "authorization, content-type, cache-control, traceparent, "
    "x-nearfar-cache, x-nearfar-category, x-nearfar-trace"
)
_OWN = ("age", "retry-after", "server-timing", "x-cache", "x-nearfar-max-tokens", "x-request-id")
_SHOWN = ", ".join([*_OWN, *sorted(PASSED)])

Head = tuple[tuple[str, str], ...]


def allows(origins: Sequence[str], origin: str) -> bool:
    """Whether this page may call."""
    return bool(origin) and (origin in origins or "*" in origins)


def headers(origins: Sequence[str], origin: str) -> Head:
    """What every reply carries for an allowed origin, an error too; nothing for another."""
    if not origins:
        return ()
    if allows(origins, origin):
        allowed = "*" if "*" in origins else origin
        return (
            ("access-control-allow-origin", allowed),
            ("access-control-expose-headers", _SHOWN),
            ("vary", "origin"),
        )
    return (("vary", "origin"),)


def preflight(methods: str) -> Head:
    """What the answer to a preflight says beside; it needs no key and uses no limit."""
    return (
        ("access-control-allow-methods", methods),
        ("access-control-allow-headers", _ASKED),
        ("access-control-max-age", str(MAX_AGE_S)),
    )
