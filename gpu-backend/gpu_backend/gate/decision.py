"""What a limiter decides about one request, and the answer that a refused one gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from gpu_backend.gate.answers import Limited, Refusal, Replayed, Revoked, Standing, Window
from gpu_backend.grant import NO_LIMITS, Limits

WINDOW_S = 60.0
# When a parallel request will end is not known; asking again is cheap.
PARALLEL_RETRY_S = 1.0


class Verdict(IntEnum):
    """The numbers are those of reserve.lua."""

    OK = 0
    REPLAYED = 1
    REVOKED = 2
    REQUESTS = 3
    TOKENS = 4
    PARALLEL = 5
    MONTH = 6


OWNERS = ("key", "tenant")  # as reserve.lua counts them


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of one owner's limits a minute, and when nothing of them is used any more."""

    limits: Limits
    requests: int
    requests_reset_s: float
    tokens: int
    tokens_reset_s: float

    @property
    def standing(self) -> Standing:
        """As header values; a limit that the owner lacks is left out."""
        rpm, tpm = self.limits.rpm, self.limits.tpm
        return Standing(
            None if rpm is None else Window(rpm, self.requests, self.requests_reset_s),
            None if tpm is None else Window(tpm, self.tokens, self.tokens_reset_s),
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, what is left of the limits, and how long the request would have to wait.

    `whose` limit is reached, and `limits` are all of that owner's.
    """

    verdict: Verdict
    standing: Standing = field(default_factory=Standing)
    wait_s: float = 0.0
    whose: str = OWNERS[0]
    limits: Limits = NO_LIMITS


def decision(verdict: Verdict, owner: int, wait_s: float, lefts: Sequence[Left]) -> Decision:
    """A decision on a request of these owners; of two limits the one with less left is told."""
    if not lefts:
        return Decision(verdict, wait_s=wait_s)
    standings = [left.standing for left in lefts]
    tightest = Standing(
        _tighter([found.requests for found in standings]),
        _tighter([found.tokens for found in standings]),
    )
    return Decision(verdict, tightest, wait_s, OWNERS[owner], lefts[owner].limits)


def refusal(decision: Decision, tokens: int, month_left_s: float) -> Refusal:
    """The refusal that says what is used up and when a retry makes sense."""
    limits, whose = decision.limits, decision.whose
    match decision.verdict:
        case Verdict.REPLAYED:
            return Replayed("This request id was used before.")
        case Verdict.REVOKED:
            return Revoked("The API key was revoked.")
        case Verdict.PARALLEL:
            message = f"The {whose} has {limits.par} requests running, as many as it may."
            code, kind, wait_s = "parallel_limit_exceeded", "requests", PARALLEL_RETRY_S
        case Verdict.MONTH:
            message = f"The {whose}'s budget of {limits.month} tokens for this month is used up."
            code, kind, wait_s = "monthly_budget_exceeded", "tokens", month_left_s
        case Verdict.TOKENS:
            message = _tokens_message(whose, limits, tokens)
            code, kind, wait_s = "rate_limit_exceeded", "tokens", decision.wait_s
        case _:
            message = f"The {whose}'s limit of {limits.rpm} requests a minute is reached."
            code, kind, wait_s = "rate_limit_exceeded", "requests", decision.wait_s
    return Limited(message, type=kind, code=code, retry_after_s=wait_s, standing=decision.standing)


def _tighter(windows: Iterable[Window | None]) -> Window | None:
    found = [window for window in windows if window is not None]
    return min(found, key=lambda window: window.remaining, default=None)


def _tokens_message(whose: str, limits: Limits, tokens: int) -> str:
    if limits.tpm is not None and tokens > limits.tpm:
        return (
            f"The request asks for {tokens} tokens (prompt and max_tokens), more than the "
            f"{whose}'s limit of {limits.tpm} tokens a minute; ask for fewer."
        )
    return f"The {whose}'s limit of {limits.tpm} tokens a minute is reached."
