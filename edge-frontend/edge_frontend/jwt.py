"""Tokens of other issuers (JWT, RFC 7519) as a way to say who one is, beside API keys.

Nothing in a token decides how it is checked: its `iss` chooses among the issuers of the settings,
its `kid` among that issuer's keys, and the key has its algorithm. Which part was wrong is not told.
Source of the rules: RFC 8725 (best practices), RFC 7515 4.1.11 (crit), RFC 7519 4.1 (claims).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from . import untrusted
from .caller import Caller
from .issuers import Issuer, Issuers
from .keys import NAME, PREFIX
from .limits import NAMES, Limits
from .signatures import Key, WrongToken, decode

MAX_TOKEN_CHARS = 8_192
MAX_KID_CHARS = 256
MAX_REMEMBERED = 1_024


class InvalidToken(ValueError):
    """The token is of nobody we know, was altered, is not for us, or is not valid now."""


class KeySource(Protocol):
    """Where an issuer's keys are."""

    async def find(self, issuer: Issuer, kid: str) -> Key | None:
        """The key of this id, also the only key where the id is empty.

        Raises:
            KeysUnavailable: when the issuer's keys are not to be had at all.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """A token that was found right before."""

    caller: Caller
    issuer: Issuer
    key: Key
    until_s: float


class Remembered:
    """Digests of tokens that an instance has checked before: a hint that spares the signature."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}

    def get(self, digest: bytes, now_s: float) -> _Known | None:
        """What is known of a token, unless its time is over."""
        known = self._known.get(digest)
        return known if known is not None and now_s < known.until_s else None

    def put(self, digest: bytes, known: _Known) -> None:
        """Remember a token; the oldest makes room."""
        if len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[digest] = known

    def drop(self, digest: bytes) -> None:
        """Forget a token."""
        self._known.pop(digest, None)


def looks_like_token(credential: str) -> bool:
    """Whether a credential is to be checked here, and not as an API key."""
    return credential.count(".") == 2 and not credential.startswith(PREFIX)


async def verify(
    token: str, issuers: Issuers, keys: KeySource, now_s: float, remembered: Remembered
) -> Caller:
    """Check a token and read who sent it.

    Raises:
        InvalidToken: without saying to a client which part was wrong.
        KeysUnavailable: when the issuer's keys are not to be had.
    """
    if len(token) > MAX_TOKEN_CHARS or not token.isascii() or not looks_like_token(token):
        raise InvalidToken("not a token")
    digest = hashlib.sha256(token.encode()).digest()
    known = remembered.get(digest, now_s)
    if known is not None:
        # Forgotten with its key: one that was taken back opens no door.
        if await keys.find(known.issuer, known.key.kid) == known.key:
            return known.caller
        remembered.drop(digest)
    issuer, kid = _choose(token, issuers)
    key = await keys.find(issuer, kid)
    if key is None:
        raise InvalidToken("no such key")
    claims = _checked(token, issuer, key, now_s)
    caller = _caller(issuer, claims)
    remembered.put(digest, _Known(caller, issuer, key, claims["exp"] + issuer.leeway_s))
    return caller


def _choose(token: str, issuers: Issuers) -> tuple[Issuer, str]:
    """Which issuer and key the token names; nothing of this is believed yet."""
    parts = token.split(".")
    header, claims = _object(parts[0]), _object(parts[1])
    iss, kid = claims.get("iss"), header.get("kid", "")
    issuer = issuers.by_iss.get(iss) if isinstance(iss, str) else None
    if issuer is None:
        raise InvalidToken("no such issuer")
    # No extension is understood here, so none may be critical; b64 is one (RFC 7797).
    if "crit" in header or "b64" in header or header.get("alg") not in issuer.algorithms:
        raise InvalidToken("a header is not allowed")
    if not isinstance(kid, str) or len(kid) > MAX_KID_CHARS:
        raise InvalidToken("not a key id")
    return issuer, kid


def _checked(token: str, issuer: Issuer, key: Key, now_s: float) -> dict[str, Any]:
    """The claims, once signature, issuer, audience and times are right."""
    try:
        claims = decode(token, key, issuer.audiences, issuer.issuer)
    except WrongToken as error:
        raise InvalidToken("not right") from error
    expires_s, leeway_s = _instant(claims, "exp"), issuer.leeway_s
    if expires_s is None or expires_s + leeway_s <= now_s:
        raise InvalidToken("expired")
    for name in ("nbf", "iat"):
        begins_s = _instant(claims, name)
        if begins_s is not None and begins_s - leeway_s > now_s:
            raise InvalidToken("not valid yet")
    return claims


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    """A claim in seconds since 1970, None where there is none."""
    if name not in claims:
        return None
    value: object = claims[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidToken("a time is not a number")
    if not math.isfinite(value) or not 0 <= value < 2**53:
        raise InvalidToken("a time is out of all range")
    return value


def _caller(issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    given = {name: _at(claims, path) for name, path in issuer.claims.items()}
    defaults = issuer.defaults
    tenant = given.get("tenant")
    if tenant is None:
        tenant = defaults.tenant
    if not isinstance(tenant, str) or not NAME.fullmatch(tenant):
        raise InvalidToken("no tenant")
    limits = {
        name: getattr(defaults.limits, name) if given.get(name) is None else given[name]
        for name in NAMES
    }
    try:
        return Caller(
            key_id=_key_id(issuer, claims),
            tenant=tenant if issuer.shares_tenants else f"{issuer.name}~{tenant}",
            expires_at=int(claims["exp"]),
            models=_words(given.get("models"), defaults.models),
            permissions=_permissions(issuer, given.get("permissions")),
            limits=Limits(**limits),
            priority=_priority(issuer, given.get("priority")),
        )
    except ValueError as error:
        raise InvalidToken("a claim has another shape") from error


def _key_id(issuer: Issuer, claims: Mapping[str, Any]) -> str:
    """A name for the subject that no API key has; without a subject all of the issuer's are one."""
    subject = claims.get("sub", "")
    return f"{issuer.name}~{hashlib.sha256(str(subject).encode()).hexdigest()[:16]}"


def _permissions(issuer: Issuer, given: Any) -> tuple[str, ...]:
    if given is None:
        return issuer.defaults.permissions
    names = {issuer.permissions.get(word) for word in _words(given, ())}
    return tuple(sorted(name for name in names if name is not None))


def _priority(issuer: Issuer, given: Any) -> int:
    known = issuer.priorities.get(given) if isinstance(given, str) else None
    return issuer.defaults.priority if known is None else known


def _words(given: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list of texts, or one text of words (RFC 8693 4.2, `scope`)."""
    if given is None:
        return default
    words = given.split() if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("not a list of words")
    return tuple(words)


def _at(claims: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = claims
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _object(part: str) -> dict[str, Any]:
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
        document = untrusted.loads(text)
    except (binascii.Error, ValueError) as error:
        raise InvalidToken("not a token") from error
    if not isinstance(document, dict):
        raise InvalidToken("not a token")
    return document
