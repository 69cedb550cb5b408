"""API keys that verify themselves: claims under a MAC of the operator's secret.

    nf_<claims>.<mac>       claims: base64url(JSON {"k","t","e","m","p","l","y"})
                            mac:    base64url(HMAC-SHA256)

No store is asked to verify one, so a store that is away neither opens nor closes the door. The MAC
covers a context string beside the claims, so that no other use of the secret can make a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any

from .caller import Caller
from .limits import NO_LIMITS, NORMAL, Limits

PREFIX = "nf_"
PERMISSIONS = ("chat", "trace", "admin")
MIN_SECRET_CHARS = 32
MAX_KEY_CHARS = 2048
_CONTEXT = b"nearfar api key v1\0"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class InvalidKey(ValueError):
    """The key is not one of ours, was altered, or has expired."""


@dataclass(frozen=True, slots=True)
class Claims(Caller):
    """The caller that a key stands for, with names that a key may hold."""

    def __post_init__(self) -> None:
        Caller.__post_init__(self)
        for name in ("key_id", "tenant"):
            if not NAME.fullmatch(getattr(self, name)):
                raise ValueError(f"{name} must be 1 to 64 letters, digits, '.', '_' or '-'")
        if type(self.expires_at) is not int or self.expires_at <= 0:
            raise ValueError("expires_at must be a positive whole number of seconds since 1970")
        if not self.models or not all(model and type(model) is str for model in self.models):
            raise ValueError("models must name at least one model, or '*' for all")
        unknown = set(self.permissions) - set(PERMISSIONS)
        if unknown:
            raise ValueError(f"unknown permission {min(unknown)!r}; known: {PERMISSIONS}")


def mint(secret: str, claims: Claims) -> str:
    """Make the key that carries these claims; it is shown once and stored nowhere."""
    if len(secret) < MIN_SECRET_CHARS:
        raise ValueError(f"the secret must have at least {MIN_SECRET_CHARS} characters")
    document: dict[str, Any] = {
        "k": claims.key_id,
        "t": claims.tenant,
        "e": claims.expires_at,
        "m": list(claims.models),
        "p": list(claims.permissions),
    }
    if claims.limits != NO_LIMITS:
        document["l"] = claims.limits.given()
    if claims.priority != NORMAL:
        document["y"] = claims.priority
    payload = _encode(json.dumps(document, separators=(",", ":")).encode())
    return f"{PREFIX}{payload}.{_encode(_mac(secret, payload))}"


def verify(key: str, secrets: tuple[str, ...], now_s: float) -> Claims:
    """Check a key against each secret that is valid now, in constant time.

    Raises:
        InvalidKey: without saying which part was wrong.
    """
    if not key.startswith(PREFIX) or len(key) > MAX_KEY_CHARS or not key.isascii():
        raise InvalidKey("not a key of this service")
    payload, _, given = key[len(PREFIX) :].partition(".")
    # The text is compared, not the bytes it decodes to: base64 has several spellings of one value.
    # Every secret is tried, so that the time says nothing about which one matched.
    matches = [hmac.compare_digest(_encode(_mac(secret, payload)), given) for secret in secrets]
    if not any(matches):
        raise InvalidKey("not a key of this service")
    claims = _claims(_decode(payload))
    if claims.expires_at <= now_s:
        raise InvalidKey("the key has expired")
    return claims


def _claims(document: bytes) -> Claims:
    try:
        fields = json.loads(document)
        return Claims(
            key_id=fields["k"],
            tenant=fields["t"],
            expires_at=fields["e"],
            models=tuple(fields["m"]),
            permissions=tuple(fields["p"]),
            limits=Limits.of(fields.get("l", {})),
            priority=fields.get("y", NORMAL),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidKey("not a key of this service") from error


def _mac(secret: str, payload: str) -> bytes:
    return hmac.digest(secret.encode(), _CONTEXT + payload.encode(), hashlib.sha256)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidKey("not a key of this service") from error
