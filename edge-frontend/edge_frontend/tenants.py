"""What each tenant may use, all its keys and tokens together: the setting NEARFAR_TENANTS.

    {"acme": {"rpm": 600, "tpm": 100000, "par": 20, "month": 50000000},
     "login~acme": {"rpm": 60},
     "*": {"par": 50}}

The name is the tenant's as keys and tokens have it (`NAME~tenant` for an issuer's own), `*` stands
for every tenant that is not named. A limit that is left out is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .limits import NO_LIMITS, Limits
from .wrong import Reading

EVERYBODY = "*"
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_TENANT = re.compile(rf"\*|{_PART}(?:~{_PART})?")


@dataclass(frozen=True, slots=True)
class Tenants:
    """The limits of every tenant."""

    by_name: Mapping[str, Limits] = field(default_factory=dict)

    def limits(self, tenant: str) -> Limits:
        """What a tenant may use."""
        found = self.by_name.get(tenant)
        return self.by_name.get(EVERYBODY, NO_LIMITS) if found is None else found

    @staticmethod
    def from_json(text: str) -> Tenants:
        """Read the setting.

        Raises:
            Wrong: naming every tenant whose limits are none.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ValueError("must be a JSON object of tenants and their limits")
        reading = Reading()
        read = reading.each(_limits, document)
        reading.check()
        return Tenants(read)


def _limits(name: str, given: object) -> Limits:
    if not _TENANT.fullmatch(name):
        raise ValueError(f"{name!r} is no tenant's name, nor *")
    try:
        return Limits.of(given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
