"""Limits as the gate uses them: Redis where it answers, the policy where it does not.

`reserve` is the one round trip before the engine. Settling, renewing and reading the list of
revoked keys happen beside the requests.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_backend.gate.answers import LimitsUnknown, Refusal, Revoked, Standing
from gpu_backend.gate.decision import Decision, Verdict, refusal
from gpu_backend.gate.ledger import Ledger
from gpu_backend.gate.line import PAUSE_S, Line, RedisDown
from gpu_backend.gate.local_limits import LocalLimits
from gpu_backend.gate.outcome import UNDONE, Outcome
from gpu_backend.gate.redis_limits import Holder, decided
from gpu_backend.gate.scripts import REVOKED, Keys
from gpu_backend.gate.settings import Settings
from gpu_backend.gate.usage import month_left_s, month_of
from gpu_backend.grant import Grant

CLOSE_S = 2.0
# How long an answer's last bytes may wait for its slot to be free again.
SETTLED_WITHIN_S = 0.05

log = logging.getLogger("gpu_backend.gate")


@dataclass(slots=True)
class Hold:
    """What one request holds; `local` where Redis did not decide on it."""

    holder: Holder
    standing: Standing = field(default_factory=Standing)
    local: bool = False

    @property
    def grant(self) -> Grant:
        return self.holder.grant


class Limiter:
    """All limits of one gate. `wall` is the time of day in seconds, `now` a monotonic clock."""

    def __init__(
        self,
        settings: Settings,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._local = LocalLimits(now)
        self._line: Line | None = None
        self._ledger: Ledger | None = None
        if settings.redis is not None:
            self._line = Line(settings.redis, settings.redis_timeout_ms / 1000)
            self._ledger = Ledger(self._line)
        self._live: dict[int, Hold] = {}
        self._revoked: dict[str, float] = {}
        self._upkeep: asyncio.Task[None] | None = None
        self._told_s = -PAUSE_S

    async def reserve(self, grant: Grant) -> Hold:
        """Hold what a request may use.

        Raises:
            Refusal: a limit is reached, the key is revoked, the grant was used before, or there
                is no Redis and the policy is `closed`.
        """
        wall_s = self._wall()
        keys = Keys.of(grant.tenant, grant.key)
        token = os.urandom(8).hex()
        holder = Holder(grant, token, month_of(wall_s), keys, self._settings.lease_s)
        hold = Hold(holder)
        try:
            decision = await self._decide(hold)
        except Refusal:
            self.note_hits(grant, holder)
            raise
        hold.standing = decision.standing
        if decision.verdict is not Verdict.OK:
            if decision.verdict is not Verdict.REPLAYED:
                self.note_hits(grant, holder)
            raise refusal(decision, grant.reserve_tokens, month_left_s(wall_s))
        self._live[id(hold)] = hold
        return hold

    def settle(self, hold: Hold, outcome: Outcome) -> asyncio.Future[None] | None:
        """Give back what is held and count what was used; safe to call twice.

        The future is done when Redis has taken it; None where there is no Redis to take it.
        """
        if self._live.pop(id(hold), None) is None:
            return None
        if hold.local:
            self._local.settle(hold.grant, None if outcome.undo else outcome.generated)
        return None if self._ledger is None else self._ledger.add(hold.holder.settle(outcome))

    def note_hits(self, grant: Grant, holder: Holder | None = None) -> None:
        """Count the hits that a refused request reported."""
        if self._ledger is None or not grant.hits:
            return
        if holder is None:
            keys, month = Keys.of(grant.tenant, grant.key), month_of(self._wall())
            holder = Holder(grant, os.urandom(8).hex(), month, keys, self._settings.lease_s)
        self._ledger.add(holder.settle(UNDONE))

    @property
    def redis_up(self) -> bool | None:
        """Whether Redis is worth asking; None where there is none."""
        return None if self._line is None else self._line.up

    async def close(self) -> None:
        """Send what is not settled yet, for a bounded time, and let go of Redis."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.wait([self._upkeep])
        if self._ledger is not None and self._line is not None:
            await self._ledger.close(CLOSE_S)
            await self._line.close()

    async def _decide(self, hold: Hold) -> Decision:
        if self._line is not None:
            if self._upkeep is None:
                self._upkeep = asyncio.create_task(self._keep_up(self._line))
            try:
                reply = await self._line.ask(hold.holder.reserve())
                return decided(reply, hold.grant)
            except RedisDown as error:
                self._tell(str(error))
            except asyncio.CancelledError:
                # It may have been reserved all the same.
                if self._ledger is not None:
                    self._ledger.add(hold.holder.settle(UNDONE))
                raise
        if self._settings.without_redis == "closed":
            raise LimitsUnknown(
                "The limits cannot be checked now; try again later.", retry_after_s=PAUSE_S
            )
        hold.local = True
        if self._revoked.get(hold.grant.key, float("inf")) <= self._wall():
            raise Revoked("The API key was revoked.")
        return self._local.reserve(hold.grant)

    def _tell(self, why: str) -> None:
        """Say that Redis is away, at most once a minute."""
        now_s = time.monotonic()
        if now_s - self._told_s >= 60:
            self._told_s = now_s
            log.warning("Redis is away (%s); policy: %s.", why, self._settings.without_redis)

    async def _keep_up(self, line: Line) -> None:
        """Renew the leases of what runs and read the list of revoked keys, again and again."""
        while True:
            holders = [hold.holder for hold in self._live.values() if not hold.local]
            asked = (line.ask(("GET", REVOKED)), *(line.ask(holder.renew()) for holder in holders))
            listed, *_ = await asyncio.gather(*asked, return_exceptions=True)
            if not isinstance(listed, BaseException):
                self._revoked = revoked(listed)
            await asyncio.sleep(self._settings.lease_s / 3)


def revoked(value: Any) -> dict[str, float]:
    """The list of revoked keys as a mapping; what is not one counts as empty."""
    try:
        document = json.loads(value or b"{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: since for name, since in document.items() if isinstance(since, int | float)}
