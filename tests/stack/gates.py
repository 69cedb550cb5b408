"""Gate processes before an upstream, and the Redis that they decide with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from gpu_backend.gate import usage
from gpu_backend.gate.usage import Usage, month_of
from nearfar import process, program
from nearfar.guard import Guard
from nearfar.ports import free_port
from nearfar.process import Child

GATE_SECRET = "gate-secret-of-the-stack-tests-0000001"
PACKAGES = Path(__file__).parents[2] / "gpu-backend"
READY_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Gate:
    """One running gate process."""

    url: str
    child: Child


def start(
    upstream_url: str, redis_url: str, run: Path, guard: Guard, more: Mapping[str, str | int]
) -> Gate:
    """Start one; `more` are settings by their names in lower case, without prefix."""
    values = {"secret": GATE_SECRET, "redis": redis_url, **more}
    log = run / f"gate-{len(list(run.glob('gate-*.log')))}.log"
    child = process.start(
        "gate",
        [sys.executable, "-m", "gpu_backend.gate", "--upstream", upstream_url],
        log=log,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(PACKAGES),
            **{f"NEARFAR_GATE_{name.upper()}": str(value) for name, value in values.items()},
        },
        guard=guard,
        cwd=run,
    )
    process.wait_until(lambda: bool(_url(log)), child, READY_TIMEOUT_S, "did not listen")
    return Gate(_url(log), child)


def _url(log: Path) -> str:
    """The address that it prints once it listens; empty until then."""
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{") and "url" in line:
            return str(json.loads(line)["url"])
    return ""


@dataclass(slots=True)
class GateRedis:
    """A Redis as docs/gate.md asks for one: it forgets nothing when it is killed."""

    run: Path
    guard: Guard
    port: int = field(default_factory=free_port)
    _child: Child | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, with what it wrote before, and wait until it answers."""
        folder = self.run / f"gate-redis-{self.port}"
        folder.mkdir(exist_ok=True)
        argv = [str(program.find("redis-server")), "--port", str(self.port)]
        argv += ["--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"]
        argv += ["--appendonly", "yes", "--appendfsync", "always"]
        self._child = process.start(
            "gate-redis",
            argv,
            log=self.run / f"gate-redis-{self.port}.log",
            env={"PATH": os.defpath},
            guard=self.guard,
            cwd=folder,
        )
        process.wait_until(self._answers, self._child, 10, "did not answer")

    def kill(self) -> None:
        """End it at once."""
        if self._child is not None:
            self._child.popen.kill()
            self._child.stop()
            self._child = None

    def usage(self) -> dict[str, Usage]:
        """What each key used this month, by its id."""
        with self.client() as client:
            return {row.key: row for row in usage.read(client, month_of(time.time()))}

    def shown_usage(self) -> dict[str, Usage]:
        """The same as `nearfar usage` shows it."""
        argv = [sys.executable, "-m", "nearfar", "usage", "--redis", self.url, "--json"]
        root = PACKAGES.parent
        paths = [str(root / name) for name in ("edge-frontend", "gpu-backend", "operator-cli")]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(argv, cwd=root, env=env, capture_output=True, check=True)
        rows = json.loads(done.stdout)["usage"]
        return {row["key"]: Usage(**row) for row in rows}

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """A client for the test itself."""
        client = redis.Redis.from_url(self.url, socket_timeout=5)
        try:
            yield client
        finally:
            client.close()

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (redis.RedisError, OSError):
            return False
