"""The gate's Redis scripts and keys: docs/gate.md lists them, the scripts say what they do.

A key belongs to one tenant's one API key, or to one request. There is one Redis, not a cluster:
a script touches keys of several kinds.
"""

from __future__ import annotations

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
class Keys:
    """The Redis keys of one API key, and the prefix of its fields in a month's usage."""

    log: str
    live: str
    state: str
    fields: str

    @classmethod
    def of(cls, tenant: str, key: str) -> Keys:
        owner = f"{quote(tenant, safe='')}/{quote(key, safe='')}"
        return cls(
            log=f"{_PREFIX}:log:{owner}",
            live=f"{_PREFIX}:live:{owner}",
            state=f"{_PREFIX}:state:{owner}",
            fields=f"{owner}/",
        )


def once_key(request_id: str) -> str:
    """Where it is noted that this request id was used."""
    return f"{_PREFIX}:once:{request_id}"


def usage_key(month: str) -> str:
    """The hash of a month's counts, `month` as 2026-11."""
    return f"{_PREFIX}:usage:{month}"
