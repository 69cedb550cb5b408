"""The edge's settings, read from variables when a request needs them and never at import.

A variable is named NEARFAR_<NAME> in an environment and nearfar_<name> in Spin.
docs/configuration.md owns the table; a test compares it with this file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from .errors import Misconfigured
from .guard_rules import RULES
from .issuers import Issuers
from .keys import MIN_SECRET_CHARS
from .routes import RouteTable
from .templates import TEMPLATES
from .tenants import Tenants
from .wrong import Wrong

SECRET_NAMES = frozenset(
    {"key_secret", "key_secret_previous", "gate_secret", "upstream_keys", "store"}
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything an operator sets; times are in the unit their name ends in."""

    routes: RouteTable
    key_secret: str = field(repr=False)
    key_secret_previous: str = field(default="", repr=False)
    upstream_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    store: str = field(default="none", repr=False)
    store_timeout_ms: int = 250
    cache_ttl_s: int = 3600
    # Akamai Functions' key-value store takes values up to 1 MB, and the adapter adds the expiry.
    cache_max_bytes: int = 999_000
    follow_ms: int = 10_000
    lease_ms: int = 3_000
    template: str = "plain@1"
    max_tokens: int = 512
    max_body_bytes: int = 1_000_000
    connect_timeout_ms: int = 5_000
    first_byte_timeout_ms: int = 120_000
    between_bytes_timeout_ms: int = 60_000
    gate_secret: str = field(default="", repr=False)
    deadline_ms: int = 0
    guardrails: str = "none@1"
    issuers: Issuers = field(default_factory=Issuers)
    tenants: Tenants = field(default_factory=Tenants)
    origins: tuple[str, ...] = ()
    trusted_hops: int = 0
    environment: str = "local"
    region: str = "local"
    categories: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def key_secrets(self) -> tuple[str, ...]:
        """The operator's secrets that are valid now, the current one first."""
        return tuple(secret for secret in (self.key_secret, self.key_secret_previous) if secret)


def from_variables(variables: Mapping[str, str]) -> Settings:
    """Read settings from lower-case names without prefix; an empty value counts as not set.

    Raises:
        Misconfigured: naming every wrong variable at once, and no value.
    """
    texts = {name: variables.get(name, "").strip() for name in names()}
    wrong = [f"{variable(name)} is not set" for name in _REQUIRED if not texts[name]]
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if not text:
            continue
        try:
            values[name] = _READERS.get(name, str)(text)
        except Wrong as error:
            wrong += [f"{variable(name)} {problem}" for problem in error.problems]
        except ValueError as error:
            wrong.append(f"{variable(name)} {error}")
    wrong += _cannot_work_together(values)
    if wrong:
        raise Misconfigured("settings: " + "; ".join(sorted(wrong)))
    return Settings(**values, fingerprint=_fingerprint(texts))


def variable(name: str) -> str:
    """The name of a setting in an environment."""
    return "NEARFAR_" + name.upper()


def names() -> tuple[str, ...]:
    """The settings a host is asked for."""
    return tuple(item.name for item in fields(Settings) if item.name != "fingerprint")


def _cannot_work_together(values: Mapping[str, object]) -> list[str]:
    routes, upstream_keys = values.get("routes"), values.get("upstream_keys", {})
    if not isinstance(routes, RouteTable) or not isinstance(upstream_keys, dict):
        return []
    if set(upstream_keys) <= set(routes.upstreams):
        return []
    # Not named: who takes name and key for one another would find the key in a log.
    return [f"{variable('upstream_keys')} names an upstream that {variable('routes')} has not"]


def _fingerprint(texts: Mapping[str, str]) -> str:
    """A short hash of what is set, without the secrets: the same settings, the same hash."""
    public = {name: text for name, text in texts.items() if text and name not in SECRET_NAMES}
    return hashlib.sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()[:12]


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return read


def _secret(text: str) -> str:
    if len(text) < MIN_SECRET_CHARS:
        raise ValueError(f"must have at least {MIN_SECRET_CHARS} characters")
    return text


def _upstream_keys(text: str) -> dict[str, str]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("must be a JSON object of upstream names and keys") from None
    if not isinstance(document, dict) or not all(
        isinstance(value, str) and value.isascii() and value.isprintable()
        for value in document.values()
    ):
        raise ValueError("must be a JSON object of upstream names and keys")
    return document


def _store(text: str) -> str:
    form = "must be redis://[[user]:password@]host[:port][/database], kv:NAME or none"
    if text == "none" or (text.startswith("kv:") and text != "kv:"):
        return text
    try:
        parts = urlsplit(text)
        database = parts.path.strip("/") or "0"
        is_redis = parts.scheme == "redis" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an address or a port that is none
        raise ValueError(form) from None
    if not is_redis or not (database.isascii() and database.isdigit()):
        raise ValueError(form)
    return text


def _template(text: str) -> str:
    if text not in TEMPLATES:
        raise ValueError("must be one of " + ", ".join(sorted(TEMPLATES)))
    return text


def _guardrails(text: str) -> str:
    if text not in RULES:
        raise ValueError(f"must be one of {', '.join(sorted(RULES))}")
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _origins(text: str) -> tuple[str, ...]:
    origins = _words(text)
    if not all(origin == "*" or _ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("must be * or origins like https://app.example, with commas between them")
    return origins


_DAY_MS = 86_400_000
# As browsers write it: lower case, no path, no slash at the end (RFC 6454, 6.2).
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_REQUIRED = ("routes", "key_secret")
_READERS: dict[str, Callable[[str], object]] = {
    "routes": RouteTable.from_json,
    "key_secret": _secret,
    "key_secret_previous": _secret,
    "gate_secret": _secret,
    "upstream_keys": _upstream_keys,
    "store": _store,
    "store_timeout_ms": _whole(1, 5_000),
    "cache_ttl_s": _whole(1, 30 * 86_400),
    "cache_max_bytes": _whole(1_000, 100_000_000),
    "follow_ms": _whole(0, 600_000),
    "lease_ms": _whole(500, 60_000),
    "template": _template,
    "max_tokens": _whole(1, 1_000_000),
    "max_body_bytes": _whole(1_000, 100_000_000),
    "connect_timeout_ms": _whole(1, _DAY_MS),
    "first_byte_timeout_ms": _whole(1, _DAY_MS),
    "between_bytes_timeout_ms": _whole(1, _DAY_MS),
    "categories": _words,
    "deadline_ms": _whole(0, _DAY_MS),
    "guardrails": _guardrails,
    "issuers": Issuers.from_json,
    "tenants": Tenants.from_json,
    "origins": _origins,
    "trusted_hops": _whole(0, 10),
}
