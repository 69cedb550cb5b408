"""API keys as an operator handles them: made, listed, revoked, rotated.

A key is returned once by what makes it and stored nowhere; the edge is told its claims alone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edge_frontend import keys
from edge_frontend.limits import NO_LIMITS, NORMAL, Limits
from nearfar.admin import Admin, Entry, mint
from nearfar.errors import BadInput, NearfarError


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    claims: keys.Claims
    key: str = field(repr=False)


def create(
    admin: Admin,
    *,
    tenant: str,
    expires_s: int,
    models: Sequence[str] = (),
    permissions: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    priority: int = NORMAL,
    label: str = "",
) -> NewKey:
    """Make a key that ends in `expires_s` seconds and register it; no model named means all.

    Raises:
        BadInput: when the claims are not possible.
    """
    if expires_s < 1:
        raise BadInput("A key must last for a second at least.", "nearfar keys create --help")
    try:
        claims = keys.Claims(
            key_id=secrets.token_hex(6),
            tenant=tenant,
            expires_at=int(time.time()) + expires_s,
            models=tuple(models) or ("*",),
            permissions=tuple(permissions) or ("chat",),
            limits=limits,
            priority=priority,
        )
    except ValueError as error:
        raise BadInput(f"No key can be made: {error}.", "nearfar keys create --help") from error
    return _issue(admin, claims, label)


def rotate(
    admin: Admin,
    key_id: str,
    grace_s: int,
    limits: Mapping[str, int] | None = None,
    priority: int | None = None,
) -> tuple[NewKey, dict[str, float]]:
    """Make a key with the claims of an old one, and end the old one after the grace.

    Limits and a priority that are given take the place of the old one's. Answers the key, and all
    that are revoked.

    Raises:
        NearfarError: when the edge knows no such key, or the key does not work any more.
    """
    old, now_s = _find(admin, key_id), time.time()
    if old.expires_at is None or old.revoked_at is not None or old.expires_at <= now_s:
        raise NearfarError(
            f"The key {key_id} is {old.status(now_s)}, so there is nothing to rotate.",
            "make a new one: nearfar keys create",
        )
    lifetime_s = old.expires_at - (old.created_at or int(now_s))
    claims = keys.Claims(
        secrets.token_hex(6),
        old.tenant,
        int(now_s) + lifetime_s,
        old.models,
        old.permissions,
        Limits.of(old.limits.given() | dict(limits or {})),
        old.priority if priority is None else priority,
    )
    made = _issue(admin, claims, old.label)
    return made, admin.revoke(key_id, int(now_s) + grace_s if grace_s else None)


def revoke(admin: Admin, key_id: str) -> dict[str, float]:
    """End a key now; edges know within a minute. A key that was never registered ends too.

    Answers all that are revoked.
    """
    return admin.revoke(key_id)


def _issue(admin: Admin, claims: keys.Claims, label: str) -> NewKey:
    made = NewKey(claims, mint(admin.secret, claims))
    admin.register(claims, label=label)
    return made


def _find(admin: Admin, key_id: str) -> Entry:
    for entry in admin.entries():
        if entry.key_id == key_id:
            return entry
    raise NearfarError(f"The edge knows no key {key_id}.", "nearfar keys list")
