"""The admin way: which keys there are and which are revoked, for a key with the permission `admin`.

    nf:1:keys       JSON {key id: what is known of it}; never a key, nor anything to make one from
    nf:1:revoked    JSON {key id: second from which it is revoked}

One document each, written as a whole: two operators who write in the same second may lose one
change, so a writer reads back what it wrote. A document that is none counts as empty, so that it
stands in the way of no revocation.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs

from . import revocations, untrusted
from .errors import BadRequest, Forbidden, Misconfigured, StoreDown
from .exchange import Exchange
from .keys import NAME, Claims
from .limits import NAMES, NORMAL, Limits
from .ports import Get, Put

KEYS = "nf:1:keys"
_TTL_MS = 10 * 365 * 86_400_000
MAX_BODY_BYTES = 10_000
_MUST = ("tenant", "expires_at", "models", "permissions")
_KEPT = (*_MUST, "limits", "priority", "created_at", "label")
_SECOND = re.compile(r"[0-9]{1,12}")  # up to the year 33658


async def handle(x: Exchange) -> tuple[int, dict[str, Any]]:
    """List, register or revoke; answers a status and a document.

    Raises:
        Forbidden: for a key without the permission `admin`.
        Misconfigured: when there is no store to keep the list in.
    """
    claims = await x.authenticate()
    if "admin" not in claims.permissions:
        raise Forbidden("This key does not have the permission `admin`.")
    try:
        keys, revoked = await _read(x)
        revocations.check(x)
        key_id = x.inbound.path.partition("?")[0].rpartition("/")[2]
        if x.inbound.method == "PUT":
            keys[key_id] = _described(key_id, await x.inbound.body(MAX_BODY_BYTES))
        elif x.inbound.method == "DELETE":
            revoked[_checked(key_id)] = _since(x)
        if x.inbound.method != "GET":
            keys, revoked = await _write(x, keys, revoked)
    except StoreDown as error:
        raise Misconfigured("The near store does not answer, so keys cannot be listed.") from error
    return 200, {"keys": list(keys.values()), "revoked": revoked}


async def _read(x: Exchange) -> tuple[dict[str, Any], dict[str, float]]:
    keys, revoked = await x.near(Get(KEYS), Get(revocations.KEY))
    revocations.learn(x, revoked if isinstance(revoked, bytes) else None)
    return _kept(keys if isinstance(keys, bytes) else b"{}"), dict(x.instance.revoked)


async def _write(
    x: Exchange, keys: dict[str, Any], revoked: dict[str, float]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Write both lists, without what has expired, and read them back."""
    now = x.ports.clock.wall_s()
    alive = {name: entry for name, entry in keys.items() if _expires_at(entry) > now}
    still = {name: at for name, at in revoked.items() if name in alive or name not in keys}
    await x.near(
        Put(KEYS, json.dumps(alive).encode(), _TTL_MS),
        Put(revocations.KEY, json.dumps(still).encode(), _TTL_MS),
    )
    return await _read(x)


def _described(key_id: str, body: bytes) -> dict[str, Any]:
    """What is known of a key, checked by the same rules as the key itself."""
    document = _object(body)
    try:
        Claims(
            key_id=_checked(key_id),
            tenant=document["tenant"],
            expires_at=document["expires_at"],
            models=_texts(document["models"]),
            permissions=_texts(document["permissions"]),
            limits=Limits.of(document.get("limits", {})),
            priority=document.get("priority", NORMAL),
        )
    except (KeyError, TypeError, ValueError):
        raise BadRequest(
            "A key needs a tenant, expires_at, models and permissions, and may have limits "
            f"({', '.join(NAMES)}) and a priority."
        ) from None
    return {"key_id": key_id, **{name: document[name] for name in _KEPT if name in document}}


def _since(x: Exchange) -> float:
    at = parse_qs(x.inbound.path.partition("?")[2]).get("at", [""])[0]
    if not at:
        return x.ports.clock.wall_s()
    if not _SECOND.fullmatch(at):
        raise BadRequest("at must be a number of seconds since 1970.", param="at")
    return float(at)


def _checked(key_id: str) -> str:
    # A token's key id is its issuer's name, a tilde, and a hash of its subject.
    issuer, tilde, subject = key_id.partition("~")
    if not NAME.fullmatch(issuer) or (tilde and not NAME.fullmatch(subject)):
        raise BadRequest("A key id is 1 to 64 letters, digits, '.', '_' or '-'.", param="key_id")
    return key_id


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    return tuple(values)


def _expires_at(entry: object) -> float:
    at = entry.get("expires_at") if isinstance(entry, dict) else None
    return at if isinstance(at, int | float) else 0


def _kept(text: bytes) -> dict[str, Any]:
    try:
        return _object(text)
    except BadRequest:
        return {}


def _object(text: bytes) -> dict[str, Any]:
    try:
        document = untrusted.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise BadRequest("The body must be a JSON object.")
    return document
