"""Hits are limited at the edge alone, and told to the gate with the next miss.

    nf:1:hits:<key id>:<minute>      hits of a minute of the edge's clock
    nf:1:unreported:<key id>:n       hits that the gate has not been told of
    nf:1:unreported:<key id>:t       and the tokens that they would have cost

A hit costs no GPU second, so its limit, the key's requests a minute, may be passed by what is under
way at once; what must be exact is counted at the gate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import RateLimited
from .exchange import Exchange
from .ports import Add, Get, Result

_MINUTE_S = 60.0
_BUCKET_TTL_MS = 180_000
_UNREPORTED_TTL_MS = 35 * 86_400_000


@dataclass(frozen=True, slots=True)
class Hits:
    """What the store knew when the request was looked up."""

    this_minute: int = 0
    last_minute: int = 0
    unreported: int = 0
    unreported_tokens: int = 0


def due(x: Exchange) -> tuple[Get, ...]:
    """What to ask along with a look-up."""
    if not x.settings.gate_secret or x.claims is None:
        return ()
    now, before = _buckets(x)
    return tuple(map(Get, (now, before, _key(x, "n"), _key(x, "t"))))


def learn(x: Exchange, *values: Result) -> None:
    """Take what was asked."""
    x.hits = Hits(*(_number(value) for value in values))


def check(x: Exchange) -> None:
    """Turn away a hit above the key's requests a minute.

    Raises:
        RateLimited: with the seconds until one more is allowed.
    """
    limit = x.claims.limits.rpm if x.claims else None
    hits = x.hits or Hits()
    if limit is None:
        return
    into_s = x.ports.clock.wall_s() % _MINUTE_S
    weighed = hits.this_minute + hits.last_minute * (1 - into_s / _MINUTE_S)
    if weighed + 1 > limit:
        wait_s = max(1, math.ceil(_MINUTE_S - into_s))
        text = "The requests a minute of this key are used up."
        raise RateLimited("rate_limit_exceeded", text, (("retry-after", str(wait_s)),))


def count(x: Exchange, tokens: int | None) -> None:
    """Count a hit once the reply has gone."""
    if not x.settings.gate_secret or x.claims is None:
        return
    now, _ = _buckets(x)
    x.after += [
        Add(now, 1, _BUCKET_TTL_MS),
        Add(_key(x, "n"), 1, _UNREPORTED_TTL_MS),
        Add(_key(x, "t"), tokens or 0, _UNREPORTED_TTL_MS),
    ]


def told(x: Exchange) -> None:
    """The gate took a grant that told it of the hits."""
    hits = x.hits
    if hits is not None and hits.unreported:
        x.after += [
            Add(_key(x, "n"), -hits.unreported, _UNREPORTED_TTL_MS),
            Add(_key(x, "t"), -hits.unreported_tokens, _UNREPORTED_TTL_MS),
        ]


def _buckets(x: Exchange) -> tuple[str, str]:
    minute = int(x.ports.clock.wall_s() // _MINUTE_S)
    caller = x.claims.key_id if x.claims else ""
    return f"nf:1:hits:{caller}:{minute}", f"nf:1:hits:{caller}:{minute - 1}"


def _key(x: Exchange, what: str) -> str:
    return f"nf:1:unreported:{x.claims.key_id if x.claims else ''}:{what}"


def _number(value: Result) -> int:
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0
