"""Hits are limited at the edge alone, and told to the gate with the next miss.

    nf:1:hits:<tenant>/<key id>            the hits of the last minute
    nf:1:unreported:<tenant>/<key id>:n    hits that the gate has not been told of
    nf:1:unreported:<tenant>/<key id>:t    and the tokens that they would have cost

A hit costs no GPU second, so the gate, which counts what does, need not be asked. Its limit is the
key's requests a minute, beside those that the gate lets through, and holds over all edges that
share a store. Who follows another's answer counts as a hit. A look-up asks for all of this along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import RateLimited, StoreDown
from .exchange import Exchange
from .ports import Add, Get, Operation, Result, Spend

WINDOW_MS = 60_000
_UNREPORTED_TTL_MS = 35 * 86_400_000


@dataclass(frozen=True, slots=True)
class Hits:
    """What the store knew when the request was looked up."""

    unreported: int = 0
    unreported_tokens: int = 0
    wait_ms: int = 0


def due(x: Exchange, answer: str = "") -> tuple[Operation, ...]:
    """What to ask along with a look-up for the answer under this key, if there is one."""
    if not x.settings.gate_secret or x.claims is None:
        return ()
    spend = _spend(x, answer) if answer else ()
    return Get(_key(x, "n")), Get(_key(x, "t")), *spend


def learn(x: Exchange, count: Result, tokens: Result, wait_ms: Result = None) -> None:
    """Take what was asked."""
    x.hits = Hits(_number(count), _number(tokens), wait_ms if type(wait_ms) is int else 0)


def check(x: Exchange) -> None:
    """Turn away a hit above the key's requests a minute.

    Raises:
        RateLimited: with the seconds until one more is allowed.
    """
    if x.hits is not None and x.hits.wait_ms:
        _refuse(x.hits.wait_ms)


async def follow(x: Exchange) -> None:
    """Count one who will follow another's answer; a store that is away limits nobody.

    Raises:
        RateLimited: as `check` does.
    """
    spend = _spend(x) if x.settings.gate_secret else ()
    try:
        results = await x.near(*spend) if spend else []
    except StoreDown:
        return
    for wait_ms in results:
        if type(wait_ms) is int and wait_ms:
            _refuse(wait_ms)


def count(x: Exchange, tokens: int | None) -> None:
    """Note what the gate is to be told, once the reply has gone."""
    if not x.settings.gate_secret or x.claims is None:
        return
    x.after.append(Add(_key(x, "n"), 1, _UNREPORTED_TTL_MS))
    if tokens:
        x.after.append(Add(_key(x, "t"), tokens, _UNREPORTED_TTL_MS))


def told(x: Exchange) -> None:
    """The gate read a grant that told it of the hits."""
    hits = x.hits
    if hits is not None and hits.unreported:
        x.after += [
            Add(_key(x, "n"), -hits.unreported, _UNREPORTED_TTL_MS),
            Add(_key(x, "t"), -hits.unreported_tokens, _UNREPORTED_TTL_MS),
        ]
        x.hits = None  # a second call of this request tells them no more


def _spend(x: Exchange, given: str = "") -> tuple[Spend, ...]:
    limit = x.claims.limits.rpm if x.claims else None
    if limit is None:
        return ()
    return (Spend(f"nf:1:hits:{_caller(x)}", limit, WINDOW_MS, given),)


def _refuse(wait_ms: int) -> None:
    wait_s = max(1, math.ceil(wait_ms / 1000))
    text = "The requests a minute of this key are used up."
    raise RateLimited(text, headers=(("retry-after", str(wait_s)),))


def _caller(x: Exchange) -> str:
    return f"{x.claims.tenant}/{x.claims.key_id}" if x.claims else ""


def _key(x: Exchange, what: str) -> str:
    return f"nf:1:unreported:{_caller(x)}:{what}"


def _number(value: Result) -> int:
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0
