"""Revoked keys: a short list in the near store, read along with a look-up and remembered as a hint.

    nf:1:revoked    JSON {key id: second from which it is revoked}

Every instance reads it anew at least every 30 s, so a revocation is known everywhere within 60 s.
A store that is away leaves the list as it was last seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import untrusted
from .errors import StoreDown, Unauthorized
from .exchange import Exchange
from .ports import Get

KEY = "nf:1:revoked"
FRESH_MS = 30_000


def due(x: Exchange) -> tuple[Get, ...]:
    """The operation to add to the next batch, if the hint is old."""
    read_ms = x.instance.revoked_read_ms
    if read_ms is not None and x.ports.clock.now_ms() - read_ms < FRESH_MS:
        return ()
    return (Get(KEY),)


def learn(x: Exchange, value: bytes | None) -> None:
    """Remember the list as just read."""
    x.instance.revoked = parse(value)
    x.instance.revoked_read_ms = x.ports.clock.now_ms()


async def refresh(x: Exchange) -> None:
    """Read the list anew if the hint is old; a store that is away leaves it as it is."""
    operations = due(x)
    if not operations:
        return
    try:
        (value,) = await x.near(*operations)
    except StoreDown:
        return
    learn(x, value if isinstance(value, bytes) else None)


def check(x: Exchange) -> None:
    """Turn away a revoked key.

    Raises:
        Unauthorized: when the key is revoked by now.
    """
    if x.claims is None:
        return
    since = x.instance.revoked.get(x.claims.key_id)
    if since is not None and since <= x.ports.clock.wall_s():
        raise Unauthorized("The API key is not valid or has expired.")


def parse(value: bytes | None) -> Mapping[str, float]:
    """The list as a mapping; what is not one counts as empty."""
    try:
        document = untrusted.loads(value or b"{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: since for name, since in document.items() if isinstance(since, int | float)}
