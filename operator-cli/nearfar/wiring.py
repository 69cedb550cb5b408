"""What the edge of the local stack is told: its settings, its route table, its first key."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from edge_frontend import keys, settings
from edge_frontend.errors import Misconfigured
from nearfar import gate
from nearfar.credentials import Credentials
from nearfar.engine import Served
from nearfar.errors import BadInput, Missing

LOCAL_KEY_DAYS = 30


def edge_settings(kept: Credentials, served: Served, store_url: str) -> dict[str, str]:
    """Return the edge's settings; public ones that the caller's environment sets are passed on."""
    public = set(settings.names()) - settings.SECRET_NAMES - {"routes"}
    names = {settings.variable(name) for name in public}
    passed = {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}
    ours = {
        "NEARFAR_ROUTES": json.dumps(routes(served)),
        "NEARFAR_KEY_SECRET": kept.key_secret,
        "NEARFAR_KEY_SECRET_PREVIOUS": kept.key_secret_previous,
        "NEARFAR_UPSTREAM_KEYS": json.dumps({"gpu": served.key} if served.key else {}),
        "NEARFAR_STORE": store_url,
        "NEARFAR_GATE_SECRET": kept.gate_secret if served.gated else "",
    }
    return passed | {name: value for name, value in ours.items() if value}


def check_settings() -> None:
    """Find every setting in the caller's environment that the edge or the gate would refuse.

    Raises:
        BadInput: naming all of them at once, and none of their values.
    """
    kept = Credentials(*("made up for this check, then dropped",) * 4)
    served = Served("http://127.0.0.1:1", "any", kept.engine_key, gated=True)
    given = edge_settings(kept, served, "none")
    problems = [gate.wrong_settings(), _wrong_at_the_edge(given)]
    if any(problems):
        raise BadInput(
            "; ".join(filter(None, problems)), "correct the named variables; nothing was started."
        )


def _wrong_at_the_edge(given: Mapping[str, str]) -> str:
    lower = {name.removeprefix("NEARFAR_").lower(): value for name, value in given.items()}
    try:
        settings.from_variables(lower)
    except Misconfigured as error:
        return error.message
    return ""


def routes(served: Served) -> Mapping[str, Any]:
    """Return the table with one upstream and one model."""
    model: dict[str, Any] = {
        "upstream": "gpu",
        "model": served.model,
        "revision": served.revision,
        "serving_hash": served.serving_hash,
    }
    if served.context_tokens:
        model["context_tokens"] = served.context_tokens
    return {
        "version": "local-1",
        "upstreams": {"gpu": {"url": served.url, "kind": served.kind}},
        "models": {served.model: model},
    }


def local_key(secret: str, key_id: str | None = None) -> tuple[keys.Claims, str]:
    """Mint the key that `nearfar up` prints: all models, chat and trace."""
    claims = keys.Claims(
        key_id=key_id or secrets.token_hex(6),
        tenant="local",
        expires_at=int(time.time()) + LOCAL_KEY_DAYS * 86_400,
        permissions=("chat", "trace"),
    )
    return claims, keys.mint(secret, claims)


def upstream(url: str, key: str | None, model: str | None, context_tokens: int) -> Served:
    """Return somebody's OpenAI-compatible server as what the edge forwards to.

    Raises:
        BadInput: when the address is none, or no model is named.
    """
    if not _is_address(url):
        raise BadInput(
            f"--upstream {url!r} is not a web address.", "give one like http://host:8000"
        )
    if not model:
        raise BadInput("--upstream needs --model.", "name a model that the server knows.")
    return Served(url, model, key or "", "unknown", "unknown", context_tokens)


def check_reachable(served: Served) -> None:
    """Ask the server for its models; what it answers does not matter, that it answers does.

    Raises:
        Missing: when nobody is there.
        BadInput: when it refuses the key.
    """
    headers = {"authorization": f"Bearer {served.key}"} if served.key else {}
    base = served.url.rstrip("/").removesuffix("/v1")
    try:
        response = httpx.get(f"{base}/v1/models", headers=headers, timeout=5, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Missing(
            f"Nothing answers at --upstream {served.url} ({type(error).__name__}).",
            "start that server first, or correct its address.",
        ) from error
    if response.status_code in (401, 403):
        raise BadInput(
            f"--upstream {served.url} refuses the key.",
            "pass its key with --upstream-key or NEARFAR_UPSTREAM_KEY.",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read here to be checked
    except ValueError:
        return False
    there = parts.scheme in ("http", "https") and parts.hostname
    return bool(there) and not (parts.query or parts.fragment)
