"""Limits over all gates and edges: the Redis scripts as commands, and their replies as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_backend.gate.decision import Decision, Verdict, standing
from gpu_backend.gate.line import Command, call
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
    usage_key,
)
from gpu_backend.grant import Grant, Limits

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
    def _all(self) -> tuple[str, str, str, str]:
        return (once_key(self.grant.request_id), self.keys.log, self.keys.live, self.keys.state)

    def reserve(self, now_us: int | None = None) -> Command:
        """Ask for the request; without `now_us` Redis's own clock counts, one for all gates."""
        grant, limits = self.grant, self.grant.limits
        asked = (limits.rpm, limits.tpm, limits.par, limits.month)
        return call(
            RESERVE,
            (*self._all, usage_key(self.month), REVOKED),
            (
                "" if now_us is None else now_us,
                grant.request_id,
                self.token,
                grant.key,
                json.dumps(grant.key),
                grant.reserve_tokens,
                *(-1 if limit is None else limit for limit in asked),
                round(self.lease_s * _US),
                ONCE_MS,
                self.keys.fields,
            ),
        )

    def renew(self, now_us: int | None = None) -> Command:
        """Keep the request's slot for another lease."""
        grant = self.grant
        return call(
            RENEW,
            self._all[1:],
            (
                "" if now_us is None else now_us,
                grant.request_id,
                round(self.lease_s * _US),
                grant.reserve_tokens,
            ),
        )

    def settle(self, outcome: Outcome) -> Command:
        """Free the slot and count what was used; sent twice, it acts once."""
        counts: list[str | int] = []
        for name, number in increments(self.grant, outcome).items():
            counts += [self.keys.fields + name, number]
        return call(
            SETTLE,
            (*self._all, usage_key(self.month)),
            (
                self.grant.request_id,
                self.token,
                -1 if outcome.undo else outcome.generated,
                SETTLED_MS,
                USAGE_S,
                *counts,
            ),
        )


def decided(reply: Sequence[int], limits: Limits) -> Decision:
    """The reply of reserve.lua."""
    verdict, requests_left, requests_us, tokens_left, tokens_us, wait_us = reply
    resets_s = (requests_us / _US, tokens_us / _US)
    left = standing(limits, requests_left, tokens_left, resets_s)
    return Decision(Verdict(verdict), left, wait_us / _US)
