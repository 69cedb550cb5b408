"""The gate of a stack as the command line meets it: its settings, its process, its Redis."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

import redis

from gpu_backend.gate import settings, usage
from gpu_backend.gate.scripts import REVOKED
from gpu_backend.gate.usage import Usage
from nearfar import process
from nearfar.checkout import Checkout, python_path
from nearfar.errors import BadInput, Missing
from nearfar.guard import Guard
from nearfar.logs import last_lines
from nearfar.ports import free_port
from nearfar.process import Child

READY_TIMEOUT_S = 15
TIMEOUT_S = 5
_KEPT_S = 10 * 365 * 86_400
_PUBLIC = ("REDIS_TIMEOUT_MS", "WITHOUT_REDIS", "MAX_RUNNING", "MAX_WAITING", "LEASE_S")


def database_beside(store_url: str) -> str:
    """The next database of the same Redis: what the store may evict is not the gate's."""
    parts = urlsplit(store_url)
    number = parts.path.strip("/") or "0"
    return parts._replace(path=f"/{int(number) + 1}").geturl()


def environment(secret: str, redis_url: str) -> dict[str, str]:
    """The gate's settings; public ones that the caller's environment sets are passed on."""
    names = [settings.PREFIX + name for name in _PUBLIC]
    passed = {name: os.environ[name] for name in names if os.environ.get(name)}
    return passed | {"NEARFAR_GATE_SECRET": secret, "NEARFAR_GATE_REDIS": redis_url}


def wrong_settings() -> str:
    """What the gate would refuse of the caller's settings, in words; nothing if all is right."""
    given = {name: value for name, value in os.environ.items() if name.startswith(settings.PREFIX)}
    # These two are the stack's own, and the address of the command's option.
    for name in ("SECRET", "SECRET_PREVIOUS", "REDIS"):
        given.pop(settings.PREFIX + name, None)
    try:
        settings.from_environment(given)
    except settings.SettingsError as error:
        return "; ".join(f"{name} {problem}" for name, problem in error.problems.items())
    return ""


def start(
    checkout: Checkout, guard: Guard, upstream: str, given: Mapping[str, str]
) -> tuple[Child, str]:
    """Start the gate in front of a server, and answer it and its own address once it listens."""
    port = free_port()
    argv = [sys.executable, "-P", "-m", "gpu_backend.gate", "--upstream", upstream]
    child = process.start(
        "gate",
        [*argv, "--port", str(port)],
        log=checkout.run / "gate.log",
        env={"PATH": os.defpath, "PYTHONPATH": python_path(checkout), **given},
        guard=guard,
        cwd=checkout.run,
    )
    process.wait_until(
        lambda: any('"url"' in line for line in last_lines(child.log)),
        child,
        READY_TIMEOUT_S,
        "did not listen",
    )
    return child, f"http://127.0.0.1:{port}"


def used(redis_url: str, month: str) -> tuple[Usage, ...]:
    """What every key used in a month, as the gates counted it.

    Raises:
        Missing: when the gate's Redis does not answer.
    """
    with _client(redis_url) as client:
        try:
            return usage.read(client, month)
        except (redis.RedisError, OSError) as error:
            raise _away(error) from error


def tell_revoked(redis_url: str, revoked: Mapping[str, float]) -> None:
    """Add an edge's revocations to the gate's own list; several edges may tell it of theirs.

    Raises:
        Missing: when the gate's Redis does not answer.
    """
    with _client(redis_url) as client:
        try:
            client.transaction(lambda pipe: _merge(pipe, revoked), REVOKED)
        except (redis.RedisError, OSError) as error:
            raise _away(error) from error


def _merge(pipe: redis.client.Pipeline, revoked: Mapping[str, float]) -> None:
    held = pipe.get(REVOKED)
    try:
        known = json.loads(held) if isinstance(held, bytes) else {}
    except ValueError:
        known = {}
    merged = {**known, **revoked} if isinstance(known, dict) else dict(revoked)
    pipe.multi()
    pipe.set(REVOKED, json.dumps(merged), ex=_KEPT_S)


def _client(redis_url: str) -> redis.Redis:
    try:
        return redis.Redis.from_url(
            redis_url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        )
    except ValueError as error:
        raise BadInput(
            "The address of the gate's Redis is none.", "give one like redis://host:6379/1"
        ) from error


def _away(error: Exception) -> Missing:
    return Missing(
        f"The gate's Redis does not answer ({type(error).__name__}).",
        "check its address, then run this again.",
    )
