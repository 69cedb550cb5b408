"""One request on its way: the ports it may use, its account, and what is known about its sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import __version__, account, headers, traceparent
from .errors import StoreDown, Unauthorized
from .keys import Claims, InvalidKey, verify
from .ports import Inbound, Operation, Ports, Result
from .settings import Settings

STORE_PAUSE_MS = 1_000  # a store that failed is left alone so long: not every request waits


@dataclass(slots=True)
class Instance:
    """What an instance remembers between requests: hints, never the only copy of anything."""

    requests: int = 0
    revoked: Mapping[str, float] = field(default_factory=dict)
    revoked_read_ms: float | None = None
    store_down_until_ms: float = 0.0


@dataclass(slots=True)
class Exchange:
    """A request, the world around it, and its account of time."""

    inbound: Inbound
    ports: Ports
    settings: Settings
    instance: Instance
    account: account.Account
    trace: traceparent.TraceContext
    claims: Claims | None = None

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

    def authenticate(self) -> Claims:
        """Who sent this, from the key alone.

        Raises:
            Unauthorized: without saying what was wrong with the key.
        """
        scheme, _, key = self.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthorized("Send an API key as `Authorization: Bearer nf_…`.")
        try:
            now_s = self.ports.clock.wall_s()
            self.claims = verify(key.strip(), self.settings.key_secrets, now_s)
        except InvalidKey as error:
            raise Unauthorized("The API key is not valid or has expired.") from error
        return self.claims

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

    def mark(self, stage: str, instant: str = "") -> None:
        """End a stage now."""
        self.account.mark(stage, self.ports.clock.now_ms(), instant)
