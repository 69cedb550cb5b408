"""What a limiter decides about one request, and the answer that a refused one gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from gpu_backend.gate.answers import Limited, Refusal, Replayed, Revoked, Standing, Window
from gpu_backend.grant import Limits

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


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, what is left of the limits, and how long the request would have to wait."""

    verdict: Verdict
    standing: Standing = field(default_factory=Standing)
    wait_s: float = 0.0


def standing(
    limits: Limits, requests_left: int, tokens_left: int, reset_s: tuple[float, float]
) -> Standing:
    """What is left as header values; a limit that the key lacks is left out."""
    return Standing(
        None if limits.rpm is None else Window(limits.rpm, requests_left, reset_s[0]),
        None if limits.tpm is None else Window(limits.tpm, tokens_left, reset_s[1]),
    )


def refusal(decision: Decision, limits: Limits, tokens: int, month_left_s: float) -> Refusal:
    """The refusal that says what is used up and when a retry makes sense."""
    match decision.verdict:
        case Verdict.REPLAYED:
            return Replayed("This request id was used before.")
        case Verdict.REVOKED:
            return Revoked("The API key was revoked.")
        case Verdict.PARALLEL:
            message = f"The key has {limits.par} requests running, as many as it may."
            code, kind, wait_s = "parallel_limit_exceeded", "requests", PARALLEL_RETRY_S
        case Verdict.MONTH:
            message = f"The key's budget of {limits.month} tokens for this month is used up."
            code, kind, wait_s = "monthly_budget_exceeded", "tokens", month_left_s
        case Verdict.TOKENS:
            message = _tokens_message(limits, tokens)
            code, kind, wait_s = "rate_limit_exceeded", "tokens", decision.wait_s
        case _:
            message = f"The key's limit of {limits.rpm} requests a minute is reached."
            code, kind, wait_s = "rate_limit_exceeded", "requests", decision.wait_s
    return Limited(message, type=kind, code=code, retry_after_s=wait_s, standing=decision.standing)


def _tokens_message(limits: Limits, tokens: int) -> str:
    if limits.tpm is not None and tokens > limits.tpm:
        return (
            f"The request asks for {tokens} tokens (prompt and max_tokens), more than the key's "
            f"limit of {limits.tpm} tokens a minute; ask for fewer."
        )
    return f"The key's limit of {limits.tpm} tokens a minute is reached."
