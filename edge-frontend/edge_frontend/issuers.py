"""Whose tokens are accepted, and how their claims are read: the setting NEARFAR_ISSUERS.

    {"NAME": {"issuer": "https://login.example",  "audience": "nearfar" | [...],
              "jwks_url": "https://..." | "jwks": {"keys": [...]},
              "algorithms": ["RS256"],  "leeway_s": 0,
              "claims": {"tenant": ..., "permissions": ..., "models": ..., "priority": ...,
                         "rpm": ..., "tpm": ..., "par": ..., "month": ...},
              "permissions": {"llm.chat": "chat"},  "priorities": {"gold": "interactive"},
              "defaults": {"tenant": "acme", "permissions": ["chat"], "rpm": 60, ...},
              "shares_tenants": false}}

A claim is a name, or a list of names on the way into objects. What the claims do not say is taken
from the defaults. A permission or a priority counts only through its map: what a word means at the
issuer is not what it means here. Tenants are the issuer's own (NAME~tenant) unless it shares them
with API keys, so that no subject can take a key's tenant.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .keys import NAME, PERMISSIONS
from .limits import NAMES, NORMAL, PRIORITIES, Limits
from .signatures import ALGORITHMS, Key, read_keys
from .wrong import Reading

MAX_LEEWAY_S = 300
# What is fast enough to be offered without being asked for; docs/decisions has the figures.
DEFAULT_ALGORITHMS = ("RS256", "RS384", "RS512")
CLAIMS = ("tenant", "permissions", "models", "priority", *NAMES)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a caller is and may do as far as the claims do not say it; no tenant: claims must."""

    tenant: str = ""
    permissions: tuple[str, ...] = ("chat",)
    models: tuple[str, ...] = ("*",)
    priority: int = NORMAL
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Issuer:
    """One issuer: either an address of keys or the keys themselves."""

    name: str
    issuer: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    jwks_url: str
    keys: Mapping[str, Key]
    leeway_s: int
    claims: Mapping[str, tuple[str, ...]]
    permissions: Mapping[str, str]
    priorities: Mapping[str, int]
    defaults: Defaults
    shares_tenants: bool


@dataclass(frozen=True, slots=True)
class Issuers:
    """All of them, by the `iss` of their tokens."""

    by_iss: Mapping[str, Issuer] = field(default_factory=dict)

    @staticmethod
    def from_json(text: str) -> Issuers:
        """Read the setting.

        Raises:
            Wrong: naming every issuer and field that is wrong.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("must be a JSON object of issuers") from None
        if not isinstance(document, dict):
            raise ValueError("must be a JSON object of issuers")
        reading = Reading()
        read = reading.each(_issuer, document)
        reading.check()
        by_iss = {issuer.issuer: issuer for issuer in read.values()}
        if len(by_iss) < len(read):
            raise ValueError("two issuers have the same `issuer`")
        return Issuers(by_iss)


def _issuer(name: str, given: Any) -> Issuer:
    if not NAME.fullmatch(name) or not isinstance(given, dict):
        raise ValueError("must be objects under names of letters, digits, '.', '_' and '-'")
    reading = Reading()
    reading.problems += [
        f"{name}: {field!r} is not known" for field in sorted(set(given) - set(_READERS))
    ]
    values: dict[str, Any] = {
        field: reading.part(functools.partial(read, given.get(field)), f"{name}: {field} ")
        for field, read in _READERS.items()
    }
    reading.check()
    reading.part(functools.partial(_check_whole, values), f"{name}: ")
    keys = reading.part(functools.partial(_keys, values), f"{name}: jwks ")
    reading.check()
    audiences, _ = values.pop("audience"), values.pop("jwks")
    return Issuer(name=name, keys=keys or {}, audiences=audiences, **values)


def _check_whole(values: Mapping[str, Any]) -> None:
    """What no field is wrong in alone."""
    reading = Reading()
    if (values["jwks"] is None) == (not values["jwks_url"]):
        reading.problems.append("either jwks_url or jwks")
    if not values["defaults"].tenant and "tenant" not in values["claims"]:
        reading.problems.append("claims or defaults must say the tenant")
    reading.check()


def _keys(values: Mapping[str, Any]) -> Mapping[str, Key]:
    return {} if values["jwks"] is None else read_keys(values["jwks"], values["algorithms"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise ValueError("must be a text or a list of texts")
    return tuple(_text(item) for item in listed)


def _algorithms(value: Any) -> tuple[str, ...]:
    names = DEFAULT_ALGORITHMS if value is None else _texts(value)
    if unknown := set(names) - set(ALGORITHMS):
        raise ValueError(f"must be of {', '.join(ALGORITHMS)}, not {min(unknown)!r}")
    return names


def _url(value: Any) -> str:
    if value is None:
        return ""
    parts = urlsplit(_text(value))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("must be an http or https address without a user")
    return str(value)


def _leeway(value: Any) -> int:
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= MAX_LEEWAY_S:
        raise ValueError(f"must be a whole number from 0 to {MAX_LEEWAY_S}")
    return value


def _claims(value: Any) -> dict[str, tuple[str, ...]]:
    given = _object(value)
    if unknown := set(given) - set(CLAIMS):
        raise ValueError(f"must be of {', '.join(CLAIMS)}, not {min(unknown)!r}")
    return {name: _texts(path) for name, path in given.items()}


def _permissions(value: Any) -> dict[str, str]:
    given = _object(value)
    if not set(given.values()) <= set(PERMISSIONS):
        raise ValueError(f"must map to {', '.join(PERMISSIONS)}")
    return given


def _priorities(value: Any) -> dict[str, int]:
    given = _object(value)
    if not set(given.values()) <= set(PRIORITIES):
        raise ValueError(f"must map to {', '.join(PRIORITIES)}")
    return {name: PRIORITIES[priority] for name, priority in given.items()}


def _defaults(value: Any) -> Defaults:
    given = dict(_object(value))
    if unknown := set(given) - set(CLAIMS):
        raise ValueError(f"must be of {', '.join(CLAIMS)}, not {min(unknown)!r}")
    limits = Limits(**{name: given.pop(name) for name in NAMES if name in given})
    readers: dict[str, Callable[[Any], Any]] = {
        "tenant": _tenant,
        "permissions": lambda names: tuple(_permissions({name: name for name in _texts(names)})),
        "models": _texts,
        "priority": lambda name: _priorities({"": name})[""],
    }
    return Defaults(**{name: readers[name](item) for name, item in given.items()}, limits=limits)


def _tenant(value: Any) -> str:
    if not NAME.fullmatch(_text(value)):
        raise ValueError("must have a tenant of letters, digits, '.', '_' and '-'")
    return str(value)


def _flag(value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ValueError("must be true or false")
    return bool(value)


def _object(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ValueError("must be an object")
    return value or {}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "issuer": _text,
    "audience": _texts,
    "algorithms": _algorithms,
    "jwks_url": _url,
    "jwks": lambda value: value,
    "leeway_s": _leeway,
    "claims": _claims,
    "permissions": _permissions,
    "priorities": _priorities,
    "defaults": _defaults,
    "shares_tenants": _flag,
}
