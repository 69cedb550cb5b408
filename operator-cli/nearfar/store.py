"""The Redis beside the edge of the local stack."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import redis

from nearfar import process, program
from nearfar.guard import Guard
from nearfar.ports import free_port
from nearfar.process import Child

READY_TIMEOUT_S = 15


@dataclass(frozen=True, slots=True)
class Store:
    """A running Redis and the address that the edge is given, password included."""

    child: Child
    url: str


def config(port: int, password: str) -> str:
    """Return the configuration: memory only, bounded, least recently used values go first."""
    return "\n".join(
        (
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            'save ""',
            "appendonly no",
            "loglevel warning",
            "maxmemory 256mb",
            "maxmemory-policy volatile-ttl",
            "",
        )
    )


def start(run: Path, guard: Guard) -> Store:
    """Start a Redis of our own on a free port and wait until it answers."""
    port, password = free_port(), secrets.token_urlsafe(24)
    path = run / "store.conf"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(config(port, password))
    argv = [str(program.find("redis-server")), str(path)]
    child = process.start(
        "store",
        argv,
        log=run / "store.log",
        env={"PATH": os.defpath},
        guard=guard,
        cwd=run,
        needed=False,
    )
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    process.wait_until(lambda: answers(url), child, READY_TIMEOUT_S, "did not answer")
    return Store(child, url)


def answers(url: str) -> bool:
    """Whether a Redis answers at this address, with the right password."""
    client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
