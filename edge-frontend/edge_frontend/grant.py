"""The grant: what the edge says of one request to the gate beside the model server.

    x-nearfar-grant: PAYLOAD.MAC
    PAYLOAD = base64url(JSON)           without padding
    MAC     = base64url(HMAC-SHA256(secret, "nearfar grant v1\\0" + PAYLOAD))

The gate accepts nothing unsigned, each grant once, and for 30 s; docs/gate.md lists the fields.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from .caller import Caller
from .limits import NO_LIMITS, Limits

HEADER = "x-nearfar-grant"
_CONTEXT = b"nearfar grant v1\0"


def mint(
    secret: str,
    caller: Caller,
    *,
    request_id: str,
    issued_s: float,
    estimate_tokens: tuple[int, int],
    choices: int = 1,
    hits: tuple[int, int] = (0, 0),
    tenant_limits: Limits = NO_LIMITS,
) -> bytes:
    """The header's value. `estimate_tokens` is input and most output, `hits` count and tokens."""
    document: dict[str, object] = {
        "v": 1,
        "i": round(issued_s, 3),
        "r": request_id,
        "t": caller.tenant,
        "k": caller.key_id,
        "p": caller.priority,
        "l": _told(caller.limits),
        "e": list(estimate_tokens),
        "n": choices,
        "h": {"n": hits[0], "d": {"tokens": hits[1]}},
    }
    if tenant_limits != NO_LIMITS:
        document["tl"] = _told(tenant_limits)
    payload = _encode(json.dumps(document, separators=(",", ":")).encode())
    mac = hmac.digest(secret.encode(), _CONTEXT + payload, hashlib.sha256)
    return payload + b"." + _encode(mac)


def salt(secret: str, tenant: str, own: object) -> str:
    """vLLM's cache_salt of a tenant, so that no prefix is shared between two of them.

    A salt of the client's own parts its requests further and never joins them to another tenant's.
    """
    text = json.dumps([tenant, own if isinstance(own, str) else None]).encode()
    return _encode(
        hmac.digest(secret.encode(), b"nearfar salt v1\0" + text, "sha256")[:18]
    ).decode()


def _told(limits: Limits) -> dict[str, int | None]:
    return {"rpm": limits.rpm, "tpm": limits.tpm, "par": limits.par, "month": limits.month}


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
