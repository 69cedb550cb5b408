"""Limits in this process alone, for the time in which Redis is away and the policy is `open`.

The windows are as exact as those in Redis, but each gate keeps its own, and they begin empty.
A monthly budget is not known here and not enforced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpu_backend.gate.decision import WINDOW_S, Decision, Left, Verdict, decision
from gpu_backend.gate.redis_limits import limits_of
from gpu_backend.gate.scripts import ONCE_MS
from gpu_backend.grant import Grant, Limits

Owner = tuple[str, ...]  # a tenant, or a tenant and one of its keys


@dataclass(slots=True)
class _Entry:
    """One request in an owner's window; `tokens` shrinks to the real ones when it is settled."""

    admitted_s: float
    tokens: int


@dataclass(slots=True)
class _Account:
    """What one owner used in the last 60 s, and what it has running."""

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

    def settle(self, request_id: str, generated: int | None) -> None:
        """Free a request's slot and put its real tokens in; None undoes its reservation."""
        if request_id not in self.live:
            return
        self.live.remove(request_id)
        entry = self.log.get(request_id)
        if entry is None:
            return
        self.tokens += (generated or 0) - entry.tokens
        entry.tokens = generated or 0
        if generated is None:
            del self.log[request_id]

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
    """The limits of every key and tenant seen here. `now` is a monotonic clock in seconds."""

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
        limits = limits_of(grant)
        accounts = [self._accounts.setdefault(owner, _Account()) for owner in _owners(grant)]
        for account in accounts:
            account.slide(now_s)
        verdict, at, wait_s = _verdict(accounts, limits, grant.reserve_tokens, now_s)
        if verdict is Verdict.OK:
            for account in accounts:
                account.log[grant.request_id] = _Entry(now_s, grant.reserve_tokens)
                account.live.add(grant.request_id)
                account.tokens += grant.reserve_tokens
        lefts = [_left(*pair, now_s) for pair in zip(accounts, limits, strict=True)]
        return decision(verdict, at, wait_s, lefts)

    def settle(self, grant: Grant, generated: int | None) -> None:
        """Free the request's slots and put the real tokens in; None undoes the reservation."""
        for owner in _owners(grant):
            account = self._accounts.get(owner)
            if account is not None:
                account.settle(grant.request_id, generated)

    def _sweep(self, now_s: float) -> None:
        """Once a window, forget request ids and owners that no longer matter."""
        if now_s - self._swept_s < WINDOW_S:
            return
        self._swept_s = now_s
        self._used = {name: until for name, until in self._used.items() if until > now_s}
        for owner, account in list(self._accounts.items()):
            account.slide(now_s)
            if not account.log and not account.live:
                del self._accounts[owner]


def _owners(grant: Grant) -> tuple[Owner, ...]:
    """Who has limits, in the order of `limits_of`."""
    found = ((grant.tenant, grant.key), (grant.tenant,))
    return found[: len(limits_of(grant))]


def _verdict(
    accounts: Sequence[_Account], limits: Sequence[Limits], tokens: int, now_s: float
) -> tuple[Verdict, int, float]:
    """The verdict, which owner's limit it is about, and how long the request would have to wait."""
    owners = list(enumerate(zip(accounts, limits, strict=True)))
    for at, (account, own) in owners:
        if own.par is not None and len(account.live) >= own.par:
            return Verdict.PARALLEL, at, 0.0
    found = [(Verdict.OK, 0, 0.0)]
    for at, (account, own) in owners:
        if own.rpm is not None and len(account.log) >= own.rpm:
            found.append((Verdict.REQUESTS, at, account.request_wait_s(own.rpm, now_s)))
        if own.tpm is not None and account.tokens + tokens > own.tpm:
            wait_s = account.token_wait_s(account.tokens + tokens - own.tpm, now_s)
            found.append((Verdict.TOKENS, at, wait_s))
    return max(found, key=lambda each: each[2])


def _left(account: _Account, limits: Limits, now_s: float) -> Left:
    reset_s = account.reset_s(now_s)
    return Left(
        limits,
        max(0, (limits.rpm or 0) - len(account.log)),
        reset_s,
        max(0, (limits.tpm or 0) - account.tokens),
        reset_s if account.tokens else 0.0,
    )
