"""The grant: what the edge says of one request to the gate, under a MAC of a shared secret.

    x-nearfar-grant: PAYLOAD.MAC
    PAYLOAD = base64url(JSON)           without padding
    MAC     = base64url(HMAC-SHA256(secret, "nearfar grant v1\\0" + PAYLOAD))

docs/gate.md lists the fields. The edge mints grants with code of its own; `mint` here is for the
first request of a starting server, and for tests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HEADER = b"x-nearfar-grant"
VERSION = 1
# How long a grant may travel, and how far two clocks may be apart.
VALID_S = 30.0
CLOCK_SKEW_S = 5.0

BATCH, NORMAL, INTERACTIVE = 0, 1, 2

_DOMAIN = b"nearfar grant v1\0"
_MAX_BYTES = 4096
_MAX_TEXT = 200
# Redis counts in 64 bits and Lua in doubles: nothing larger than this is exact in both.
_MAX_NUMBER = 1 << 53
# What reading a JSON value of an unexpected shape raises.
_MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    binascii.Error,
)


class GrantError(Exception):
    """The grant cannot be accepted; the message says why and holds nothing of the grant."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one key or one tenant may use; None is no limit. Tokens are generated ones.

    `rpm` requests and `tpm` tokens in any 60 s, `par` requests at once, `month` tokens in a
    calendar month (UTC).
    """

    rpm: int | None = None
    tpm: int | None = None
    par: int | None = None
    month: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Grant:
    """One request that the edge let through. `choices` is the request's `n`.

    `limits` are the key's own, `tenant_limits` those that all keys of the tenant share.
    """

    issued_s: float
    request_id: str
    tenant: str
    key: str
    priority: int = NORMAL
    limits: Limits = field(default_factory=Limits)
    input_tokens: int = 0
    output_tokens: int = 0
    choices: int = 1
    hits: int = 0
    cached_tokens: int = 0
    subject: str | None = None
    tenant_limits: Limits = NO_LIMITS

    @property
    def reserve_tokens(self) -> int:
        """What is held against the token limit until the real usage is known."""
        return self.input_tokens + self.output_tokens


def mint(grant: Grant, secret: bytes) -> str:
    """The header's value for this grant."""
    document: dict[str, Any] = {
        "v": VERSION,
        "i": grant.issued_s,
        "r": grant.request_id,
        "t": grant.tenant,
        "k": grant.key,
        "p": grant.priority,
        "l": _given(grant.limits),
        "e": [grant.input_tokens, grant.output_tokens],
        "n": grant.choices,
        "h": {"n": grant.hits, "d": {"tokens": grant.cached_tokens}},
    }
    if grant.subject is not None:
        document["sub"] = grant.subject
    if grant.tenant_limits != NO_LIMITS:
        document["tl"] = _given(grant.tenant_limits)
    payload = _encoded(json.dumps(document, separators=(",", ":")).encode())
    return (payload + b"." + _mac(secret, payload)).decode()


def verify(value: bytes, secrets: Sequence[bytes], now_s: float) -> Grant:
    """The grant in a header's value, if one of the secrets signed it and it is fresh.

    Raises:
        GrantError: it is missing, too long, not signed by us, malformed, expired, or of a
            later time.
    """
    payload, dot, mac = value.partition(b".")
    if not dot or len(value) > _MAX_BYTES:
        raise GrantError("The request carries no grant.")
    given = mac.rstrip(b"=")
    # Every secret is tried, so that the time taken does not tell which one fits.
    if not sum(hmac.compare_digest(_mac(secret, payload), given) for secret in secrets):
        raise GrantError("The grant is not signed by a secret of this gate.")
    grant = _read(payload)
    if not -CLOCK_SKEW_S <= now_s - grant.issued_s <= VALID_S + CLOCK_SKEW_S:
        raise GrantError("The grant is not valid at this time; compare the clocks of both halves.")
    return grant


def _mac(secret: bytes, payload: bytes) -> bytes:
    return _encoded(hmac.digest(secret, _DOMAIN + payload, hashlib.sha256))


def _encoded(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _read(payload: bytes) -> Grant:
    try:
        document = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
        return _grant(document)
    except _MALFORMED as error:
        raise GrantError("The grant is signed but not in the form that this gate reads.") from error


def _grant(document: Mapping[str, Any]) -> Grant:
    if document["v"] != VERSION:
        raise ValueError("version")
    hits = document.get("h") or {}
    estimate, most = document["e"]
    return Grant(
        issued_s=_seconds(document["i"]),
        request_id=_text(document["r"]),
        tenant=_text(document["t"]),
        key=_text(document["k"]),
        priority=_number(document["p"], most=INTERACTIVE),
        limits=_limits(document["l"]),
        input_tokens=_number(estimate),
        output_tokens=_number(most),
        choices=_number(document.get("n", 1), least=1),
        hits=_number(hits.get("n", 0)),
        cached_tokens=_number((hits.get("d") or {}).get("tokens", 0)),
        subject=None if document.get("sub") is None else _text(document["sub"]),
        tenant_limits=_limits(document["tl"]) if "tl" in document else NO_LIMITS,
    )


def _given(limits: Limits) -> dict[str, int | None]:
    return {"rpm": limits.rpm, "tpm": limits.tpm, "par": limits.par, "month": limits.month}


def _limits(value: Mapping[str, Any]) -> Limits:
    return Limits(*(_limit(value.get(name)) for name in ("rpm", "tpm", "par", "month")))


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
        raise ValueError("text")
    return value


def _number(value: object, *, least: int = 0, most: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError("number")
    return value


def _limit(value: object) -> int | None:
    return None if value is None else _number(value)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("time")
    return float(value)
