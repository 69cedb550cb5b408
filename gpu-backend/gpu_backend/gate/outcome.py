"""How one request ended, and what that adds to its key's usage."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_backend.grant import Grant


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request used. `exact`: the engine counted and the answer came to its end.

    `undo`: the engine did not take the request (it was full), so it counts as never let in.
    """

    generated: int = 0
    input_tokens: int = 0
    cached_input: int = 0
    exact: bool = True
    failed: bool = False
    undo: bool = False


UNDONE = Outcome(undo=True)


def increments(grant: Grant, outcome: Outcome) -> dict[str, int]:
    """What to add to the counts of `usage.Usage`; zeros are left out."""
    found = {"hits": grant.hits, "cached": grant.cached_tokens}
    if not outcome.undo:
        found |= {
            "requests": 1,
            "aborted": int(not outcome.exact),
            "failed": int(outcome.failed),
            "generated" if outcome.exact else "estimated": outcome.generated,
            "input": outcome.input_tokens,
            "cached_input": outcome.cached_input,
        }
    return {name: number for name, number in found.items() if number}
