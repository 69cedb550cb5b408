"""Limits over all gates and edges: the Redis scripts as commands, and their replies as values."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

from gpu_backend.gate.decision import Decision, Left, Verdict, decision
from gpu_backend.gate.line import call
from gpu_backend.gate.outcome import Outcome, increments
from gpu_backend.gate.scripts import (
    ONCE_MS,
    RENEW,
    RESERVE,
    REVOKED,
    SETTLE,
    SETTLED_MS,
    USAGE_S,
    Keys,
    once_key,
    spent_key,
    usage_key,
)
from gpu_backend.gate.wire import Command
from gpu_backend.grant import NO_LIMITS, Grant, Limits

_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a reservation: the request, and a token that only this attempt knows."""

    grant: Grant
    token: str
    month: str
    keys: Keys
    lease_s: float

    @property
    def _owners(self) -> tuple[str, ...]:
        """The keys of all who have limits: the API key's always, its tenant's if it has some."""
        key, tenant = self.keys.key, self.keys.tenant
        found = (key.log, key.live, key.state)
        if self.grant.tenant_limits == NO_LIMITS:
            return found
        return (*found, tenant.log, tenant.live, tenant.state)

    def reserve(self, now_us: int | None = None) -> Command:
        """Ask for the request; without `now_us` Redis's own clock counts, one for all gates."""
        grant = self.grant
        asked = [_asked(limits) for limits in limits_of(grant)]
        return call(
            RESERVE,
            (
                once_key(grant.request_id),
                usage_key(self.month),
                spent_key(self.month),
                REVOKED,
                *self._owners,
            ),
            (
                "" if now_us is None else now_us,
                grant.request_id,
                self.token,
                grant.key,
                json.dumps(grant.key),
                grant.reserve_tokens,
                round(self.lease_s * _US),
                ONCE_MS,
                self.keys.fields,
                self.keys.tenant_field,
                *itertools.chain.from_iterable(asked),
            ),
        )

    def renew(self, now_us: int | None = None) -> Command:
        """Keep the request's slots for another lease."""
        grant = self.grant
        return call(
            RENEW,
            self._owners,
            (
                "" if now_us is None else now_us,
                grant.request_id,
                round(self.lease_s * _US),
                grant.reserve_tokens,
            ),
        )

    def settle(self, outcome: Outcome) -> Command:
        """Free the slots and count what was used; sent twice, it acts once."""
        counts: list[str | int] = []
        for name, number in increments(self.grant, outcome).items():
            counts += [self.keys.fields + name, number]
        return call(
            SETTLE,
            (
                once_key(self.grant.request_id),
                usage_key(self.month),
                spent_key(self.month),
                *self._owners,
            ),
            (
                self.grant.request_id,
                self.token,
                -1 if outcome.undo else outcome.generated,
                SETTLED_MS,
                USAGE_S,
                self.keys.tenant_field,
                *counts,
            ),
        )


def limits_of(grant: Grant) -> tuple[Limits, ...]:
    """The limits of each owner, in the order of the scripts: the key's, the tenant's."""
    if grant.tenant_limits == NO_LIMITS:
        return (grant.limits,)
    return (grant.limits, grant.tenant_limits)


def decided(reply: bytes, grant: Grant) -> Decision:
    """The reply of reserve.lua: numbers with spaces between."""
    verdict, whose, wait_us, *left = map(int, reply.split())
    lefts = []
    for limits in limits_of(grant) if left else ():
        requests, requests_us, tokens, tokens_us, *left = left
        lefts.append(Left(limits, requests, requests_us / _US, tokens, tokens_us / _US))
    return decision(Verdict(verdict), whose - 1, wait_us / _US, lefts)


def _asked(limits: Limits) -> tuple[int, ...]:
    asked = (limits.rpm, limits.tpm, limits.par, limits.month)
    return tuple(-1 if limit is None else limit for limit in asked)
