"""Who sent a request and what they may do, whichever way they proved it: an API key or a token."""

from __future__ import annotations

from dataclasses import dataclass

from .limits import NO_LIMITS, NORMAL, PRIORITIES, Limits


@dataclass(frozen=True, slots=True)
class Caller:
    """The same facts of every caller. `expires_at` is in seconds since 1970.

    A caller with a token has a key id and, unless its issuer is said to share them, a tenant that
    no API key can have: they hold a `~`. Who has an API key is a `keys.Claims`.
    """

    key_id: str
    tenant: str
    expires_at: int
    models: tuple[str, ...] = ("*",)
    permissions: tuple[str, ...] = ("chat",)
    limits: Limits = NO_LIMITS
    priority: int = NORMAL

    def __post_init__(self) -> None:
        if self.priority not in PRIORITIES.values():
            raise ValueError(f"priority must be one of {sorted(PRIORITIES.values())}")

    def allows_model(self, model: str) -> bool:
        """Whether this caller may call the model."""
        return "*" in self.models or model in self.models
