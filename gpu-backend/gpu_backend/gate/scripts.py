"""The gate's Redis scripts and keys: docs/gate.md lists them, the scripts say what they do.

A key belongs to one tenant, to one of its API keys, or to one request. There is one Redis, not a
cluster: a script touches keys of several kinds.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

REVOKED = "nf:1:revoked"
_PREFIX = "nf:gate:1"
# Longer than a grant is valid, clock skew included, so that no second use gets past.
ONCE_MS = 60_000
SETTLED_MS = 900_000
USAGE_S = 400 * 86_400


@dataclass(frozen=True, slots=True)
class Script:
    """One script. `sha` is how Redis names it once it is loaded."""

    text: str
    sha: str


def _script(name: str) -> Script:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


RESERVE = _script("reserve.lua")
SETTLE = _script("settle.lua")
RENEW = _script("renew.lua")
ALL = (RESERVE, SETTLE, RENEW)


@dataclass(frozen=True, slots=True)
class Owner:
    """The Redis keys of one who has limits: an API key or a tenant."""

    log: str
    live: str
    state: str

    @classmethod
    def named(cls, name: str) -> Owner:
        return cls(*(f"{_PREFIX}:{kind}:{name}" for kind in ("log", "live", "state")))


@dataclass(frozen=True, slots=True)
class Keys:
    """The Redis keys of one API key and of its tenant.

    `fields` is the prefix of the API key's fields in a month's usage, `tenant_field` the tenant's
    in what the tenants spent. A tenant's name holds no slash here and a key's holds one, so that
    neither can be the other.
    """

    key: Owner
    tenant: Owner
    fields: str
    tenant_field: str

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def of(tenant: str, key: str) -> Keys:
        tenant_field = quote(tenant, safe="")
        owner = f"{tenant_field}/{quote(key, safe='')}"
        return Keys(Owner.named(owner), Owner.named(tenant_field), f"{owner}/", tenant_field)


def once_key(request_id: str) -> str:
    """Where it is noted that this request id was used."""
    return f"{_PREFIX}:once:{request_id}"


def usage_key(month: str) -> str:
    """The hash of a month's counts, `month` as 2026-11."""
    return f"{_PREFIX}:usage:{month}"


def spent_key(month: str) -> str:
    """The hash of what each tenant's budget of a month has paid for, in tokens."""
    return f"{_PREFIX}:spent:{month}"
