"""A real Redis, and gates around a tiny engine in a real ASGI server."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from fakes.engine import SECRET, Served, serve
from fakes.redis_process import RedisServer
from gpu_backend.gate.settings import Settings


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
