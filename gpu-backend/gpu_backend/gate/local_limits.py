"""Limits in this process alone, for the time in which Redis is away and the policy is `open`.

The windows are as exact as those in Redis, but each gate keeps its own, and they begin empty.
A monthly budget is not known here and not enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpu_backend.gate.decision import WINDOW_S, Decision, Verdict, standing
from gpu_backend.gate.scripts import ONCE_MS
from gpu_backend.grant import Grant

Owner = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    """One request in a key's window; `tokens` shrinks to the real ones when it is settled."""

    admitted_s: float
    tokens: int


@dataclass(slots=True)
class _Account:
    """What one key used in the last 60 s, and what it has running."""

    log: dict[str, _Entry] = field(default_factory=dict)  # oldest first
    live: set[str] = field(default_factory=set)
    tokens: int = 0

    def slide(self, now_s: float) -> None:
        """Forget what is 60 s old."""
        while self.log:
            request_id = next(iter(self.log))
            if self.log[request_id].admitted_s > now_s - WINDOW_S:
                return
            self.tokens -= self.log.pop(request_id).tokens

    def request_wait_s(self, limit: int, now_s: float) -> float:
        """How long until one more request fits."""
        at = len(self.log) - limit
        for entry in list(self.log.values())[at : at + 1]:
            return entry.admitted_s + WINDOW_S - now_s
        return WINDOW_S

    def token_wait_s(self, excess: int, now_s: float) -> float:
        """How long until so many tokens have left the window."""
        for entry in self.log.values():
            excess -= entry.tokens
            if excess <= 0:
                return entry.admitted_s + WINDOW_S - now_s
        return WINDOW_S

    def reset_s(self, now_s: float) -> float:
        """How long until the window is empty."""
        newest = next(reversed(self.log.values()), None)
        return 0.0 if newest is None else newest.admitted_s + WINDOW_S - now_s


class LocalLimits:
    """The limits of every key seen here. `now` is a monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._accounts: dict[Owner, _Account] = {}
        self._used: dict[str, float] = {}  # request id -> when it may be forgotten, oldest first
        self._swept_s = now()

    def reserve(self, grant: Grant) -> Decision:
        """Decide on a request as reserve.lua does, and hold what it may use if it is let in."""
        now_s = self._now()
        self._sweep(now_s)
        if grant.request_id in self._used:
            return Decision(Verdict.REPLAYED)
        self._used[grant.request_id] = now_s + ONCE_MS / 1000
        account = self._accounts.setdefault((grant.tenant, grant.key), _Account())
        account.slide(now_s)
        verdict, wait_s = _verdict(account, grant, now_s)
        if verdict is Verdict.OK:
            account.log[grant.request_id] = _Entry(now_s, grant.reserve_tokens)
            account.live.add(grant.request_id)
            account.tokens += grant.reserve_tokens
        return _decision(verdict, account, grant, now_s, wait_s)

    def settle(self, grant: Grant, generated: int | None) -> None:
        """Free the request's slot and put the real tokens in; None undoes the reservation."""
        account = self._accounts.get((grant.tenant, grant.key))
        if account is None or grant.request_id not in account.live:
            return
        account.live.remove(grant.request_id)
        entry = account.log.get(grant.request_id)
        if entry is None:
            return
        account.tokens += (generated or 0) - entry.tokens
        entry.tokens = generated or 0
        if generated is None:
            del account.log[grant.request_id]

    def _sweep(self, now_s: float) -> None:
        """Once a window, forget request ids and keys that no longer matter."""
        if now_s - self._swept_s < WINDOW_S:
            return
        self._swept_s = now_s
        self._used = {name: until for name, until in self._used.items() if until > now_s}
        for owner, account in list(self._accounts.items()):
            account.slide(now_s)
            if not account.log and not account.live:
                del self._accounts[owner]


def _verdict(account: _Account, grant: Grant, now_s: float) -> tuple[Verdict, float]:
    limits, reserve = grant.limits, grant.reserve_tokens
    if limits.par is not None and len(account.live) >= limits.par:
        return Verdict.PARALLEL, 0.0
    found = [(Verdict.OK, 0.0)]
    if limits.rpm is not None and len(account.log) >= limits.rpm:
        found.append((Verdict.REQUESTS, account.request_wait_s(limits.rpm, now_s)))
    if limits.tpm is not None and account.tokens + reserve > limits.tpm:
        wait_s = account.token_wait_s(account.tokens + reserve - limits.tpm, now_s)
        found.append((Verdict.TOKENS, wait_s))
    return max(found, key=lambda pair: pair[1])


def _decision(
    verdict: Verdict, account: _Account, grant: Grant, now_s: float, wait_s: float
) -> Decision:
    limits, reset_s = grant.limits, account.reset_s(now_s)
    left = standing(
        limits,
        max(0, (limits.rpm or 0) - len(account.log)),
        max(0, (limits.tpm or 0) - account.tokens),
        (reset_s, reset_s if account.tokens else 0.0),
    )
    return Decision(verdict, left, wait_s)
