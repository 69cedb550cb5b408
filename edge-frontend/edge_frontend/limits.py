"""What a caller may use and how soon it is served: in its key or token, counted by the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# From the one that is turned away first to the one that is turned away last.
PRIORITIES = {"batch": 0, "normal": 1, "interactive": 2}
NORMAL = PRIORITIES["normal"]
NAMES = ("rpm", "tpm", "par", "month")
MOST = 1 << 53  # larger numbers are not exact everywhere: the gate's Redis counts in doubles


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens a minute, parallel requests, tokens a month; None is no limit."""

    rpm: int | None = None
    tpm: int | None = None
    par: int | None = None
    month: int | None = None

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value <= MOST):
                raise ValueError(f"{name} must be a whole number from 0 to 2**53, or no limit")

    @staticmethod
    def of(given: Any) -> Limits:
        """From a mapping of some of the names; raises ValueError for anything else."""
        if not isinstance(given, Mapping) or set(given) - set(NAMES):
            raise ValueError(f"limits are an object of {', '.join(NAMES)}")
        return Limits(**given)

    def given(self) -> dict[str, int]:
        """The limits that there are."""
        values = {name: getattr(self, name) for name in NAMES}
        return {name: value for name, value in values.items() if value is not None}


NO_LIMITS = Limits()
