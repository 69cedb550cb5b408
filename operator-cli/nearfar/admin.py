"""The edge's admin way: which API keys exist, and which are revoked.

Every call carries a key with the permission "admin" that is minted for it from the operator's
secret and ends a minute later, so that no admin key lies anywhere.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx

from edge_frontend import keys
from edge_frontend.limits import NO_LIMITS, NORMAL, Limits
from nearfar.errors import BadInput, Refused
from nearfar.exchange import Edge, check, mapped_errors

ADMIN_KEY_S = 60
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the edge's list; instants in seconds since 1970.

    Of a key that was revoked and never registered only the id is known.
    """

    key_id: str
    tenant: str
    expires_at: int | None
    models: tuple[str, ...]
    permissions: tuple[str, ...]
    created_at: int | None
    label: str
    revoked_at: int | None
    limits: Limits = NO_LIMITS
    priority: int = NORMAL

    def status(self, now_s: float) -> str:
        """Whether the key works now; one that is to be revoked later still does."""
        if self.revoked_at is not None and self.revoked_at <= now_s:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now_s:
            return "expired"
        if self.revoked_at is not None:
            return f"ends {moment(self.revoked_at)}"
        return "valid"


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin way of one edge."""

    endpoint: str
    secret: str = field(repr=False)

    def register(self, claims: keys.Claims, *, label: str = "") -> None:
        """Tell the edge about a key, so that it can be listed; it works without that too."""
        document = {
            "tenant": claims.tenant,
            "expires_at": claims.expires_at,
            "models": list(claims.models),
            "permissions": list(claims.permissions),
            "limits": claims.limits.given(),
            "priority": claims.priority,
            "created_at": int(time.time()),
            "label": label,
        }
        self._call("PUT", f"/{quote(claims.key_id, safe='')}", json=document)

    def entries(self) -> list[Entry]:
        """Return all registered keys, and revoked ones that were never registered."""
        document = self._call("GET", "").json()
        revoked = {str(kid): int(at) for kid, at in (document.get("revoked") or {}).items()}
        found = [_entry(item, revoked.pop(item["key_id"], None)) for item in document["keys"]]
        return found + [_entry({"key_id": kid}, at) for kid, at in revoked.items()]

    def revoke(self, key_id: str, at: int | None = None) -> dict[str, float]:
        """Revoke a key now, or from `at` (seconds since 1970) on; answers all that are revoked."""
        later = {} if at is None else {"at": str(at)}
        reply = self._call("DELETE", f"/{quote(key_id, safe='~')}", params=later)
        revoked: dict[str, float] = reply.json().get("revoked") or {}
        return revoked

    def _call(self, method: str, path: str, **rest: Any) -> httpx.Response:
        edge = Edge(self.endpoint, self._key())
        headers = {"authorization": f"Bearer {edge.api_key}"}
        with (
            mapped_errors(edge),
            httpx.Client(trust_env=False, timeout=TIMEOUT_S, headers=headers) as session,
        ):
            response = session.request(method, edge.url("/admin/keys") + path, **rest)
            if response.status_code == 401:
                raise Refused(
                    f"{self.endpoint} does not accept the operator's secret.",
                    "use the secret of that edge; restart a local stack after rotating.",
                    status=401,
                )
            check(response)
            return response

    def _key(self) -> str:
        claims = keys.Claims(
            key_id=f"admin-{secrets.token_hex(4)}",
            tenant="operator",
            expires_at=int(time.time()) + ADMIN_KEY_S,
            permissions=("admin",),
        )
        return mint(self.secret, claims)


def mint(secret: str, claims: keys.Claims) -> str:
    """Make a key; a secret that is too short is the user's to correct."""
    try:
        return keys.mint(secret, claims)
    except ValueError as error:
        raise BadInput(f"No key can be made: {error}.", "use the edge's own secret.") from error


def moment(at_s: int) -> str:
    """Write an instant for people, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


def _entry(item: dict[str, Any], revoked_at: int | None) -> Entry:
    return Entry(
        key_id=str(item["key_id"]),
        tenant=str(item.get("tenant", "")),
        expires_at=item.get("expires_at"),
        models=tuple(item.get("models", ())),
        permissions=tuple(item.get("permissions", ())),
        created_at=item.get("created_at"),
        label=str(item.get("label", "")),
        revoked_at=revoked_at,
        limits=Limits.of(item.get("limits") or {}),
        priority=item.get("priority", NORMAL),
    )
