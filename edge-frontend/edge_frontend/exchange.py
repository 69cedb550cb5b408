"""One request on its way: the ports it may use, its account, and what is known about its sender."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import __version__, account, address, headers, jwks, jwt, traceparent
from .caller import Caller
from .errors import StoreDown, Unauthorized
from .guard_rules import Rules
from .guard_stream import OutputGuard, asks_for_json
from .keys import InvalidKey, verify
from .limits import NO_LIMITS, Limits
from .ports import Inbound, Operation, Ports, Result, Spend
from .settings import Settings

STORE_PAUSE_MS = 1_000  # a store that failed is left alone so long: not every request waits


@dataclass(slots=True)
class Instance:
    """What an instance remembers between requests: hints, never the only copy of anything."""

    requests: int = 0
    revoked: Mapping[str, float] = field(default_factory=dict)
    revoked_read_ms: float | None = None
    store_down_until_ms: float = 0.0
    loads: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    shared_ms: dict[str, float] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    key_sets: dict[str, jwks.KeySet] = field(default_factory=dict)
    tokens: jwt.Remembered = field(default_factory=jwt.Remembered)


@dataclass(slots=True)
class Exchange:
    """A request, the world around it, and its account of time."""

    inbound: Inbound
    ports: Ports
    settings: Settings
    instance: Instance
    account: account.Account
    trace: traceparent.TraceContext
    claims: Caller | None = None
    passed: tuple[tuple[str, str], ...] = ()  # headers of the gate that go on to the client
    rules: Rules | None = None
    may_keep: bool = True  # whether the answer is one that another request may get
    hits: Any = None
    counted: tuple[tuple[Spend, int], ...] = ()  # see rate.py
    after: list[Operation] = field(default_factory=list)  # for the store, once the reply has gone

    @staticmethod
    def begin(
        inbound: Inbound, ports: Ports, settings: Settings, instance: Instance, started_ms: float
    ) -> Exchange:
        """Start the account at t0 and give the request its names; the client decides none."""
        random = ports.random_bytes(36)
        parent = traceparent.parse(headers.all_of(inbound.headers, "traceparent"))
        trace = traceparent.child(parent, random[:16], random[16:24])
        book = account.Account(started_ms, "req_" + random[24:].hex(), trace.trace_id)
        book.labels = {
            "service_version": __version__,
            "settings_hash": settings.fingerprint,
            "environment": settings.environment,
            "region": settings.region,
            "instance": "warm" if instance.requests else "cold",
        }
        instance.requests += 1
        return Exchange(inbound, ports, settings, instance, book, trace)

    def header(self, name: str) -> str:
        """A request header's first value."""
        return headers.first(self.inbound.headers, name)

    async def authenticate(self) -> Caller:
        """Who sent this, from the key or the token alone.

        Raises:
            Unauthorized: without saying what was wrong with it.
            KeysUnavailable: when the keys of a token's issuer are not to be had.
        """
        scheme, _, credential = self.header("authorization").partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential:
            raise Unauthorized("Send an API key as `Authorization: Bearer nf_…`.")
        is_token = self.settings.issuers.by_iss and jwt.looks_like_token(credential)
        try:
            self.claims = await self._token(credential) if is_token else self._key(credential)
        except (InvalidKey, jwt.InvalidToken) as error:
            raise Unauthorized("The API key is not valid or has expired.") from error
        return self.claims

    def _key(self, key: str) -> Caller:
        return verify(key, self.settings.key_secrets, self.ports.clock.wall_s())

    async def _token(self, token: str) -> Caller:
        known, now_s = self.instance, self.ports.clock.wall_s()
        keys = jwks.KeySets(
            known.key_sets,
            self.near,
            functools.partial(jwks.fetch, self.ports.upstream),
            self.ports.clock,
            self.ports.spawn,
            self.settings.key_secrets,
        )
        return await jwt.verify(token, self.settings.issuers, keys, now_s, known.tokens)

    @property
    def tenant_limits(self) -> Limits:
        """What all keys of the caller's tenant may use together."""
        return self.settings.tenants.limits(self.claims.tenant) if self.claims else NO_LIMITS

    def client(self) -> str | None:
        """A keyed hash of the client's address, where proxies of ours say one."""
        hops = self.settings.trusted_hops
        if not hops:
            return None
        forwarded = headers.joined(self.inbound.headers, "x-forwarded-for")
        return address.hashed(address.client(forwarded, hops), self.settings.key_secret)

    async def near(self, *operations: Operation) -> list[Result]:
        """Ask the near store in one batch on the request's way, and count the round trips.

        Raises:
            StoreDown: also when there is no store, or it did not answer a moment ago.
        """
        results, trips = await self._ask(operations)
        self.account.near_trips += trips
        return results

    async def tend(self, *operations: Operation) -> list[Result]:
        """Ask as `near` does, for what no client waits for: renewing, publishing, keeping.

        Raises:
            StoreDown: as `near` does.
        """
        results, trips = await self._ask(operations)
        self.account.upkeep_trips += trips
        return results

    async def _ask(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        store = self.ports.store
        if store is None or self.ports.clock.now_ms() < self.instance.store_down_until_ms:
            raise StoreDown("There is no store to ask.")
        try:
            return await store.batch(operations)
        except StoreDown:
            self.instance.store_down_until_ms = self.ports.clock.now_ms() + STORE_PAUSE_MS
            raise

    async def settle(self) -> None:
        """Tell the store what it should know after the reply; that it fails is nobody's failure."""
        operations, self.after = self.after, []
        if operations:
            with contextlib.suppress(StoreDown):
                await self.tend(*operations)

    def output_guard(self, fields: Mapping[str, Any]) -> OutputGuard | None:
        """A guard of the answer, if the rules look at answers."""
        if self.rules is None or not self.rules.guards_output:
            return None
        return OutputGuard(self.rules, json_content=asks_for_json(fields))

    def fired(self, rules: Iterable[str]) -> None:
        """Note the names of rules that matched, for the record."""
        known = self.account.labels.get("rules_fired", [])
        self.account.labels["rules_fired"] = sorted({*known, *rules})

    def mark(self, stage: str, instant: str = "") -> None:
        """End a stage now."""
        self.account.mark(stage, self.ports.clock.now_ms(), instant)
