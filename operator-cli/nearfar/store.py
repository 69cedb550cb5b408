"""The Redis beside the edge of the local stack."""

from __future__ import annotations

import contextlib
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
# Where in the run folder it keeps what must outlive a restart: the list of keys, the revocations.
FOLDER = "store"
# What is of one run alone (docs/store.md).
_OF_ONE_RUN = ("nf:1:answer:", "nf:1:lease:", "nf:1:live:", "nf:1:waiting:")


@dataclass(frozen=True, slots=True)
class Store:
    """A running Redis and the address that the edge is given, password included."""

    child: Child
    url: str


def config(port: int, password: str, folder: str | None = None) -> str:
    """Return the configuration: bounded, and what expires soonest goes first.

    With a folder what is written is on disk a second later; without one it is in memory alone.
    """
    kept: tuple[str, ...] = ("appendonly no",)
    if folder is not None:
        kept = (f"dir {folder}", "appendonly yes", "appendfsync everysec")
    return "\n".join(
        (
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            'save ""',
            *kept,
            "loglevel warning",
            "maxmemory 256mb",
            "maxmemory-policy volatile-ttl",
            "",
        )
    )


def start(run: Path, guard: Guard) -> Store:
    """Start a Redis of our own on a free port, with the keys of the last run and no answers."""
    port, password = free_port(), secrets.token_urlsafe(24)
    (run / FOLDER).mkdir(mode=0o700, exist_ok=True)
    path = run / "store.conf"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(config(port, password, FOLDER))
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
    forget_answers(url)
    return Store(child, url)


def forget_answers(url: str) -> None:
    """Begin with an empty answer cache, in memory and soon on disk; keys and revocations stay."""
    with redis.Redis.from_url(url) as client:
        for name in client.scan_iter("nf:1:*", count=1000):
            if name.decode().startswith(_OF_ONE_RUN):
                client.unlink(name)
        # Else the file grows for ever: Redis by itself compares with its size at the start alone.
        with contextlib.suppress(redis.ResponseError):
            client.bgrewriteaof()


def answers(url: str) -> bool:
    """Whether a Redis answers at this address, with the right password."""
    try:
        client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
    except ValueError:
        return False
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()
