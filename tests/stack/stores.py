"""A real redis-server of the tests' own, which can be killed and started again at the same port."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from nearfar import process, program, store
from nearfar.guard import Guard
from nearfar.ports import free_port
from nearfar.process import Child


@dataclass(slots=True)
class RedisServer:
    """One redis-server; `start` and `kill` may alternate."""

    run: Path
    guard: Guard
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    _child: Child | None = None

    @property
    def url(self) -> str:
        """Its address, password included."""
        return self.url_at(self.port)

    def url_at(self, port: int, password: str | None = None) -> str:
        """The same store through another port, or with another password."""
        return f"redis://:{self.password if password is None else password}@127.0.0.1:{port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        path = self.run / f"redis-{self.port}.conf"
        path.write_text(store.config(self.port, self.password), encoding="utf-8")
        self._child = process.start(
            "store",
            [str(program.find("redis-server")), str(path)],
            log=self.run / f"redis-{self.port}.log",
            env={"PATH": os.defpath},
            guard=self.guard,
            cwd=self.run,
        )
        process.wait_until(lambda: store.answers(self.url), self._child, 10, "did not answer")

    def kill(self) -> None:
        """End it; every connection to it is closed by the kernel."""
        if self._child is not None:
            self._child.popen.kill()
            self._child.stop()
            self._child = None

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """A client for the test itself."""
        client = redis.Redis.from_url(self.url, socket_timeout=5)
        try:
            yield client
        finally:
            client.close()

    def keys(self, pattern: str = "nf:1:*") -> set[str]:
        """The keys that it holds now."""
        with self.client() as client:
            return {key.decode() for key in client.keys(pattern) if isinstance(key, bytes)}
