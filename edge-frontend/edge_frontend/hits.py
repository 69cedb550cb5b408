"""Hits are told to the gate with the next miss.

    nf:1:unreported:<tenant>/<key id>:n    hits that the gate has not been told of
    nf:1:unreported:<tenant>/<key id>:t    and the tokens that they would have cost

A hit costs no GPU second, so the gate, which counts what does, need not be asked. Who follows
another's answer counts as a hit. A look-up asks for all of this along.
"""

from __future__ import annotations

from dataclasses import dataclass

from .exchange import Exchange
from .ports import Add, Get, Result

_UNREPORTED_TTL_MS = 35 * 86_400_000


@dataclass(frozen=True, slots=True)
class Hits:
    """What the gate is to be told, as the store knew it when the request was looked up."""

    unreported: int = 0
    unreported_tokens: int = 0


def due(x: Exchange) -> tuple[Get, ...]:
    """What to ask along with a look-up."""
    if not x.settings.gate_secret or x.claims is None:
        return ()
    return Get(_key(x, "n")), Get(_key(x, "t"))


def learn(x: Exchange, count: Result, tokens: Result) -> None:
    """Take what was asked."""
    x.hits = Hits(_number(count), _number(tokens))


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


def _caller(x: Exchange) -> str:
    return f"{x.claims.tenant}/{x.claims.key_id}" if x.claims else ""


def _key(x: Exchange, what: str) -> str:
    return f"nf:1:unreported:{_caller(x)}:{what}"


def _number(value: Result) -> int:
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0
