"""A real Redis, and gates around a tiny engine in a real ASGI server."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from fakes.engine import SECRET, Served, serve
from gpu_backend.gate.settings import Settings
from nearfar import program
from nearfar.ports import free_port


class RedisServer:
    """A redis-server process on a port of its own that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [str(program.find("redis-server")), "--port", str(self.port), "--save", ""]
        self._process = subprocess.Popen(
            [*argv, "--bind", "127.0.0.1", "--loglevel", "warning"],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_timeout=0.5) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@pytest.fixture(scope="session")
def redis_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def store(redis_process: RedisServer) -> Iterator[redis.Redis]:
    """A client of an empty Redis."""
    with redis.Redis.from_url(redis_process.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def settings(redis_process: RedisServer, store: redis.Redis) -> Settings:
    return Settings(secrets=(SECRET,), redis=redis_process.url, lease_s=3)


@pytest.fixture
async def served(settings: Settings) -> AsyncIterator[Served]:
    """One gate with Redis around the tiny engine."""
    async with serve(settings) as running:
        yield running


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return secrets.token_hex(6)
