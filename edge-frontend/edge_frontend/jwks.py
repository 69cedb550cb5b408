"""Key sets of token issuers: remembered, kept in the near store, fetched when that is not enough.

    nf:1:jwks:<issuer>            the set as last fetched, under a MAC: who may write the store can
                                  not make keys
    nf:1:jwks:<issuer>:<reason>   who fetches now, and how long nobody does it again

A fetch is far, so a request waits for one only when it cannot go on without: no keys are known at
all, or the token names a key that is not among them. The latter, which anybody can cause, happens
at most once in UNKNOWN_MS over all edges of a store (in each instance without one). Keys older than
FRESH_S are fetched anew beside the request; the last good ones serve through an outage, to KEEP_S.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from . import untrusted
from .errors import EdgeError, KeysUnavailable, StoreDown, UpstreamError
from .issuers import Issuer
from .ports import Call, Claim, Clock, Get, Operation, Put, Result, Upstream
from .signatures import Key, read_keys

FRESH_S = 300
KEEP_S = 86_400
UNKNOWN_MS = 10_000
FIRST_MS = 3_000
REFRESH_MS = 60_000
READ_MS = 1_000
WAIT_MS = 2_500  # for somebody else's fetch
POLL_MS = 50
FETCH_TIMEOUT_MS = 2_000
MAX_BYTES = 256_000
_CONTEXT = b"nearfar key set v1\0"
_FETCHING, _OVER = b"fetching", b"over"

Near = Callable[..., Awaitable[list[Result]]]
Fetch = Callable[[str], Awaitable[bytes]]
Spawn = Callable[[Awaitable[None]], None]


@dataclass(slots=True)
class KeySet:
    """What an instance knows of one issuer: hints all of it."""

    keys: Mapping[str, Key] = field(default_factory=dict)
    fetched_s: float = 0.0  # 0: never
    fetching_until_ms: float = 0.0  # a request may be dropped in the middle of it
    not_before_ms: dict[str, float] = field(default_factory=dict)  # by reason

    def pick(self, kid: str) -> Key | None:
        """The key of this id, or the only one where a token names none."""
        if not kid and len(self.keys) == 1:
            return next(iter(self.keys.values()))
        return self.keys.get(kid)


class KeySets:
    """The keys of every issuer, for one request; `known` is the instance's, by issuer's name."""

    def __init__(
        self,
        known: dict[str, KeySet],
        near: Near,
        fetch: Fetch,
        clock: Clock,
        spawn: Spawn,
        secrets: tuple[str, ...],
    ) -> None:
        self._known, self._near, self._fetch = known, near, fetch
        self._clock, self._spawn, self._secrets = clock, spawn, secrets

    async def find(self, issuer: Issuer, kid: str) -> Key | None:
        """The key of this id (see jwt.KeySource).

        Raises:
            KeysUnavailable: when the issuer's keys are not to be had at all.
        """
        if not issuer.jwks_url:
            return KeySet(issuer.keys).pick(kid)
        known = self._known.setdefault(issuer.name, KeySet())
        await self._keep_fresh(issuer, known)
        key = known.pick(kid)
        if key is None and kid:
            await self._get(issuer, known, "unknown", UNKNOWN_MS)
            key = known.pick(kid)
        return key

    async def _keep_fresh(self, issuer: Issuer, known: KeySet) -> None:
        if self._age_s(known) < FRESH_S:
            return
        if self._may(known, "read", READ_MS):
            await self._read(issuer, known)
        if self._age_s(known) >= KEEP_S:
            await self._get(issuer, known, "first", FIRST_MS)
        elif self._age_s(known) >= FRESH_S and self._may(known, "spawn", FIRST_MS):
            self._spawn(self._get(issuer, known, "refresh", REFRESH_MS))
        if self._age_s(known) >= KEEP_S:
            raise KeysUnavailable("The keys of the token's issuer cannot be had now.")

    async def _get(self, issuer: Issuer, known: KeySet, reason: str, pause_ms: int) -> None:
        """Fetch, or wait for whoever does; nothing if it was done a moment ago."""
        before_s = known.fetched_s
        if not self._is_fetching(known):
            if not self._may(known, reason, pause_ms):
                return
            if await self._is_ours(issuer, known, reason, pause_ms):
                await self._fetch_now(issuer, known, reason, pause_ms)
                return
        end_ms = self._clock.now_ms() + WAIT_MS
        while known.fetched_s == before_s and self._clock.now_ms() < end_ms:
            if not self._is_fetching(known) and not await self._goes_on(issuer, known, reason):
                return
            await self._clock.sleep_ms(POLL_MS)

    def _is_fetching(self, known: KeySet) -> bool:
        """Whether another request of this instance is at it."""
        return self._clock.now_ms() < known.fetching_until_ms

    async def _is_ours(self, issuer: Issuer, known: KeySet, reason: str, pause_ms: int) -> bool:
        """Take the turn to fetch; where there is no store, every instance has its own."""
        slot = f"{_name(issuer)}:{reason}"
        known.fetching_until_ms = self._clock.now_ms() + WAIT_MS
        try:
            taken, held = await self._near(
                Claim(slot, _FETCHING, pause_ms, unless=slot), Get(_name(issuer))
            )
        except StoreDown:
            return True
        if not taken:
            known.fetching_until_ms = 0.0
            self._adopt(issuer, known, held)
        return bool(taken)

    async def _goes_on(self, issuer: Issuer, known: KeySet, reason: str) -> bool:
        """Whether another edge is at it still; what it has put is taken."""
        try:
            state, held = await self._near(Get(f"{_name(issuer)}:{reason}"), Get(_name(issuer)))
        except StoreDown:
            return False
        self._adopt(issuer, known, held)
        return state == _FETCHING

    async def _fetch_now(self, issuer: Issuer, known: KeySet, reason: str, pause_ms: int) -> None:
        over: list[Operation] = [Put(f"{_name(issuer)}:{reason}", _OVER, pause_ms)]
        # Whatever went wrong, the last good keys stay.
        with contextlib.suppress(EdgeError, ValueError):
            document = untrusted.loads(await self._fetch(issuer.jwks_url))
            known.keys = read_keys(document, issuer.algorithms)
            known.fetched_s = self._clock.wall_s()
            over.insert(0, Put(_name(issuer), self._seal(issuer, document, known), KEEP_S * 1000))
        known.fetching_until_ms = 0.0
        with contextlib.suppress(StoreDown):
            await self._near(*over)

    async def _read(self, issuer: Issuer, known: KeySet) -> None:
        try:
            (held,) = await self._near(Get(_name(issuer)))
        except StoreDown:
            return
        self._adopt(issuer, known, held)

    def _seal(self, issuer: Issuer, document: Any, known: KeySet) -> bytes:
        value = json.dumps([known.fetched_s, document], separators=(",", ":")).encode()
        return _mac(self._secrets[0], issuer, value) + value

    def _adopt(self, issuer: Issuer, known: KeySet, held: Result) -> None:
        """Take a set from the store if it is ours and newer."""
        if not isinstance(held, bytes):
            return
        mac, value = held[:32], held[32:]
        if not any(
            hmac.compare_digest(_mac(secret, issuer, value), mac) for secret in self._secrets
        ):
            return
        fetched_s, document = json.loads(value)
        if fetched_s > known.fetched_s:
            with contextlib.suppress(ValueError):  # the issuer's algorithms were changed
                known.keys = read_keys(document, issuer.algorithms)
                known.fetched_s = fetched_s

    def _age_s(self, known: KeySet) -> float:
        return self._clock.wall_s() - known.fetched_s

    def _may(self, known: KeySet, reason: str, pause_ms: int) -> bool:
        """Whether this instance may do something again, which it then does."""
        now_ms = self._clock.now_ms()
        if now_ms < known.not_before_ms.get(reason, -1.0):
            return False
        known.not_before_ms[reason] = now_ms + pause_ms
        return True


async def fetch(upstream: Upstream, url: str) -> bytes:
    """A key set from its address.

    Raises:
        UpstreamError: when it did not come whole, in time, and in a size to be expected.
    """
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    accept = (("accept", b"application/json"),)
    timeouts = (FETCH_TIMEOUT_MS,) * 3
    answer = await upstream.send(Call(parts.scheme, parts.netloc, path, accept, b"", *timeouts))
    body = bytearray()
    try:
        if answer.status != 200:
            raise UpstreamError("The key server refused.")
        while data := await answer.body.read():
            body += data
            if len(body) > MAX_BYTES:
                raise UpstreamError("The key server sent too much.")
    finally:
        answer.body.close()
    return bytes(body)


def _name(issuer: Issuer) -> str:
    return f"nf:1:jwks:{issuer.name}"


def _mac(secret: str, issuer: Issuer, value: bytes) -> bytes:
    message = _CONTEXT + issuer.jwks_url.encode() + b"\0" + value
    return hmac.digest(secret.encode(), message, hashlib.sha256)
