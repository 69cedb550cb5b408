"""The versioned table that maps model names to upstreams, a part of every record."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .wrong import Reading

KINDS = ("openai", "vllm")
_FORM = 'must be JSON {"version", "upstreams": {name: {"url"}}, "models": {name: {"upstream"}}}'


@dataclass(frozen=True, slots=True)
class Upstream:
    """A model server: where it is, the path before /v1 if it has one, and of which kind it is.

    `vllm` knows fields that another OpenAI-compatible server may refuse, such as cache_salt.
    """

    name: str
    scheme: str
    authority: str
    path: str
    kind: str = "openai"


# Stands for an upstream that is wrong while the rest of the table is looked through.
_WRONG = Upstream("", "", "", "")


@dataclass(frozen=True, slots=True)
class Route:
    """What one public model name stands for; `context_tokens` is its window, 0 if unknown."""

    name: str
    upstream: Upstream
    model: str
    revision: str
    context_tokens: int
    serving_hash: str


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Every model the edge serves; `version` is the operator's name for this table."""

    version: str
    upstreams: Mapping[str, Upstream]
    models: Mapping[str, Route]

    @staticmethod
    def from_json(text: str) -> RouteTable:
        """Read the table; docs/configuration.md shows its form.

        Raises:
            Wrong: naming every entry that is wrong, fit to stand after the variable's name.
        """
        try:
            document = json.loads(text)
            version, *tables = (document[name] for name in ("version", "upstreams", "models"))
        except (KeyError, TypeError, ValueError, RecursionError):
            raise ValueError(_FORM) from None
        if not all(isinstance(table, dict) for table in tables):
            raise ValueError(_FORM)
        given_upstreams, given_models = tables
        if not given_models:
            raise ValueError("must map at least one model")
        reading = Reading()
        upstreams = reading.each(_upstream, given_upstreams)
        route = functools.partial(_route, upstreams=upstreams, names=list(given_upstreams))
        models = reading.each(route, given_models)
        reading.check()
        return RouteTable(str(version), upstreams, models)


def _upstream(name: str, entry: Any) -> Upstream:
    if not isinstance(entry, dict):
        raise ValueError(f"upstream {name!r} must be an object with a url")
    try:
        parts = urlsplit(str(entry.get("url")))
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an address or a port that is none
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise ValueError(f"upstream {name!r} must have an http or https url")
    if parts.username is not None:
        raise ValueError(f"upstream {name!r} must carry no credentials in its url")
    path = parts.path.rstrip("/").removesuffix("/v1")
    kind = entry.get("kind", "openai")
    if kind not in KINDS:
        raise ValueError(f"upstream {name!r} must be of a kind {' or '.join(KINDS)}")
    return Upstream(name, parts.scheme, parts.netloc, path, kind)


def _route(
    name: str, entry: Any, *, upstreams: Mapping[str, Upstream], names: Sequence[str]
) -> Route:
    """A model; `names` are those of all upstreams, also of the ones that are wrong themselves."""
    if not isinstance(entry, dict):
        raise ValueError(f"model {name!r} must be an object that names its upstream")
    reading, upstream = Reading(), str(entry.get("upstream"))
    if upstream not in names:
        reading.problems.append(f"model {name!r} names no upstream of the table")
    context_tokens = entry.get("context_tokens")
    if context_tokens is not None and (type(context_tokens) is not int or context_tokens < 0):
        reading.problems.append(f"context_tokens of model {name!r} must be a whole number")
    reading.check()
    return Route(
        name=name,
        upstream=upstreams.get(upstream, _WRONG),
        model=str(entry.get("model") or name),
        revision=str(entry.get("revision") or "unknown"),
        context_tokens=context_tokens or 0,
        serving_hash=str(entry.get("serving_hash") or "unknown"),
    )
