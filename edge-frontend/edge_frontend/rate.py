"""One limit of requests a minute, whoever answers: the near store counts hits and misses alike.

    nf:1:rate:<tenant>/<key id>    the requests of a key in the last minute
    nf:1:rate:<tenant>             those of all keys and tokens of a tenant

Counted along with the look-up, so that it costs no trip of its own but where nothing is looked up.
It holds over all edges that share a store. What goes on to the model server the gate counts again,
over all edges there are. A request that was refused, so that no server took it, is given back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import (
    BudgetSpent,
    EdgeError,
    ParallelLimited,
    RateLimited,
    Unauthorized,
    UpstreamBusy,
    UpstreamUnreachable,
)
from .exchange import Exchange
from .ports import Result, Spend, Unspend

WINDOW_MS = 60_000
# Of these the gate counts none either: no model server took the request.
NOT_TAKEN = (
    BudgetSpent, ParallelLimited, RateLimited, Unauthorized, UpstreamBusy, UpstreamUnreachable,
)  # fmt: skip
_LIMIT, _LEFT, _RESET = (f"x-ratelimit-{word}-requests" for word in ("limit", "remaining", "reset"))

Headers = tuple[tuple[str, str], ...]


def due(x: Exchange) -> tuple[Spend, ...]:
    """What to ask along with a look-up: one for each limit that the caller has."""
    if not x.settings.gate_secret or x.claims is None:
        return ()
    tenant = x.claims.tenant
    owners = (
        (f"{tenant}/{x.claims.key_id}", x.claims.limits.rpm),
        (tenant, x.tenant_limits.rpm),
    )
    event = x.account.request_id
    return tuple(
        Spend(f"nf:1:rate:{owner}", event, limit, WINDOW_MS)
        for owner, limit in owners
        if limit is not None
    )


def learn(x: Exchange, asked: Sequence[Spend], results: Sequence[Result]) -> None:
    """Take what was asked."""
    x.counted = tuple((op, n) for op, n in zip(asked, results, strict=True) if type(n) is int)


def check(x: Exchange) -> None:
    """Turn away a request above a limit.

    Raises:
        RateLimited: with the seconds until one more is allowed.
    """
    wait_ms, limit = max(((n, op.most) for op, n in x.counted), default=(0, 0))
    if wait_ms > 0:
        x.passed += ((_LIMIT, str(limit)), (_LEFT, "0"))
        wait_s = max(1, math.ceil(wait_ms / 1000))
        text = "The requests a minute of this key or its tenant are used up."
        raise RateLimited(text, headers=(("retry-after", str(wait_s)),))


def tell(x: Exchange) -> None:
    """Say what is left to who is not answered by a model server, whose gate would say it."""
    x.passed += _headers(x)


def tighter(x: Exchange, told: Headers) -> Headers:
    """The gate's headers, with what the store counted in their place where that leaves less."""
    gates, own = dict(told), dict(_headers(x))
    if own and (_LEFT not in gates or int(own[_LEFT]) < _number(gates[_LEFT])):
        gates |= own
    return tuple(gates.items())


def give_back(x: Exchange, error: EdgeError) -> None:
    """Take back what was counted for a request that was refused."""
    if isinstance(error, NOT_TAKEN):
        x.after += [Unspend(op.key, op.event) for op, n in x.counted if n <= 0]
    x.counted = ()


def _headers(x: Exchange) -> Headers:
    """Of several limits the one with least left; this request is the newest that counts."""
    if not x.counted:
        return ()
    left, limit = min((-n, op.most) for op, n in x.counted)
    return ((_LIMIT, str(limit)), (_LEFT, str(left)), (_RESET, f"{WINDOW_MS // 1000}s"))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
