"""What each API key used in a month, as the gates settled it.

from gpu_backend.gate import usage
rows = usage.read(redis.Redis.from_url(url), "2026-11")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import unquote

from gpu_backend.gate.scripts import usage_key


class Hashes(Protocol):
    """The one command that is needed of a synchronous Redis client."""

    def hgetall(self, name: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """The counts of one API key in one month (UTC).

    `requests` were let in, of which `aborted` did not end (the client left or the engine broke
    off) and `failed` got an error from the engine. `generated` tokens are those the engine
    counted for requests that ended; `estimated` are what aborted ones are held to have
    generated. `input` tokens are as exact as that: the engine's count, or the edge's estimate
    for aborted ones; `cached_input` of them came out of the engine's prefix cache. `hits` were
    answered by the edges' caches, and `cached` tokens with them.
    """

    tenant: str
    key: str
    requests: int = 0
    aborted: int = 0
    failed: int = 0
    generated: int = 0
    estimated: int = 0
    input: int = 0
    cached_input: int = 0
    hits: int = 0
    cached: int = 0


COUNTS = tuple(field.name for field in fields(Usage) if field.name not in ("tenant", "key"))


def read(redis: Hashes, month: str) -> tuple[Usage, ...]:
    """The usage of every key in `month` (like 2026-11), by tenant and key.

    `redis` is a synchronous client (redis.Redis). What was not settled yet is not in it.
    """
    return rows(redis.hgetall(usage_key(month)))


def rows(counts: Mapping[bytes | str, bytes | str]) -> tuple[Usage, ...]:
    """The rows of a month's hash; counts of a later version are left out."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for field, value in counts.items():
        text = field.decode() if isinstance(field, bytes) else field
        tenant, key, count = text.split("/")
        if count in COUNTS:
            found.setdefault((unquote(tenant), unquote(key)), {})[count] = int(value)
    return tuple(Usage(*owner, **numbers) for owner, numbers in sorted(found.items()))


def month_of(now_s: float) -> str:
    """The month of a wall-clock time, as it names the hash."""
    now = datetime.fromtimestamp(now_s, UTC)
    return f"{now.year}-{now.month:02}"


def month_left_s(now_s: float) -> float:
    """Seconds until the next month begins."""
    now = datetime.fromtimestamp(now_s, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp() - now_s
