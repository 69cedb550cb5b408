"""Who sent a request and what they may do, whichever way they proved it: an API key or a token."""

from __future__ import annotations

from dataclasses import dataclass

from .keys import Claims

# From the one that waits first to the one that waits last.
PRIORITIES = {"batch": 0, "normal": 1, "interactive": 2}
NORMAL = PRIORITIES["normal"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens a minute, parallel requests, tokens a month; None is no limit."""

    rpm: int | None = None
    tpm: int | None = None
    par: int | None = None
    month: int | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise ValueError(f"{name} must be a whole number or null")


LIMITS = ("rpm", "tpm", "par", "month")
NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Caller:
    """The same facts of every caller. `expires_at` is in seconds since 1970.

    A caller with a token has a key id and, unless its issuer is said to share them, a tenant that
    no API key can have: they hold a `~`.
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

    @staticmethod
    def with_key(claims: Claims, limits: Limits = NO_LIMITS, priority: int = NORMAL) -> Caller:
        """The holder of an API key."""
        return Caller(
            key_id=claims.key_id,
            tenant=claims.tenant,
            expires_at=claims.expires_at,
            models=claims.models,
            permissions=claims.permissions,
            limits=limits,
            priority=priority,
        )
