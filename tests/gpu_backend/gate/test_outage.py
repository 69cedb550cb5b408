"""A Redis that is away, silent, full or restarted: a bounded delay, then what was configured."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from fakes.engine import SECRET, Served, grant, serve, until
from fakes.redis_process import RedisServer
from gpu_backend.gate import usage
from gpu_backend.gate.settings import Settings
from gpu_backend.gate.usage import month_of

pytestmark = pytest.mark.fault(10)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that may be killed."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def open_gate(own: RedisServer) -> Settings:
    return Settings(secrets=(SECRET,), redis=own.url, lease_s=3)


async def statuses(served: Served, count: int, **limits: int) -> list[int]:
    return [(await served.ask(grant("key", **limits))).status_code for _ in range(count)]


async def test_without_redis_an_open_gate_keeps_the_limits_itself(
    own: RedisServer, open_gate: Settings
) -> None:
    async with serve(open_gate) as served:
        assert [200] == await statuses(served, 1, rpm=3)
        own.stop()
        assert [200, 200, 200, 429] == await statuses(served, 4, rpm=3)


async def test_without_redis_a_closed_gate_refuses(own: RedisServer, open_gate: Settings) -> None:
    own.stop()
    async with serve(replace(open_gate, without_redis="closed")) as served:
        reply = await served.ask()
        assert (503, "1") == (reply.status_code, reply.headers["retry-after"])
        assert "limits_unavailable" == reply.json()["error"]["code"]
        assert [] == served.engine.seen
        assert 0 == served.gate.load.in_flight


async def test_a_gate_that_was_given_no_redis_works_by_its_policy() -> None:
    async with serve(Settings(secrets=(SECRET,))) as served:
        once = grant(rpm=1)
        replies = [await served.ask(each) for each in (once, once, grant(rpm=1))]
        assert [200, 409, 429] == [reply.status_code for reply in replies]


async def test_a_restarted_redis_is_used_again_and_nothing_settled_is_lost(
    own: RedisServer, open_gate: Settings
) -> None:
    async with serve(open_gate) as served:
        own.stop()
        assert [200] * 5 == await statuses(served, 5)
        own.start()
        with redis.Redis.from_url(own.url) as store:
            await until(lambda: bool(usage.read(store, month_of(time.time()))))
            (row,) = usage.read(store, month_of(time.time()))
            assert (5, 15) == (row.requests, row.generated)
            await until(
                lambda: served.gate.limiter._line is not None and served.gate.limiter._line.up
            )
            assert [200] == await statuses(served, 1)
            assert 1 == store.zcard("nf:gate:1:log:acme/key")


async def test_a_revocation_that_was_read_before_holds_while_redis_is_away(
    own: RedisServer, open_gate: Settings
) -> None:
    with redis.Redis.from_url(own.url) as store:
        store.set("nf:1:revoked", json.dumps({"bad": 1}))
    async with serve(open_gate) as served:
        await served.ask(grant("good"))
        await until(lambda: bool(served.gate.limiter._revoked))
        own.stop()
        assert [200, 403] == [(await served.ask(grant(key))).status_code for key in ("good", "bad")]


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """A port that takes everything and answers nothing."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_silent_redis_costs_one_bounded_delay(silent_port: int) -> None:
    url = f"redis://127.0.0.1:{silent_port}/0"
    async with serve(Settings(secrets=(SECRET,), redis=url, redis_timeout_ms=100)) as served:
        began = time.monotonic()
        assert [200] == await statuses(served, 1)
        first_s = time.monotonic() - began
        assert [200] * 10 == await statuses(served, 10)
        assert first_s < 2
        assert time.monotonic() - began - first_s < 0.9  # ten delays would be a second


async def test_a_redis_that_may_not_write_is_one_that_is_away(
    own: RedisServer, open_gate: Settings
) -> None:
    for breaking in (("REPLICAOF", "127.0.0.1", "1"), ("CONFIG", "SET", "maxmemory", "1")):
        with redis.Redis.from_url(own.url) as store:
            store.execute_command(*breaking)
            async with serve(open_gate) as served:
                assert [200, 200, 429] == await statuses(served, 3, rpm=2)
            store.execute_command("REPLICAOF", "NO", "ONE")


async def test_a_wrong_password_is_a_redis_that_is_away(
    own: RedisServer, open_gate: Settings
) -> None:
    with redis.Redis.from_url(own.url) as store:
        store.config_set("requirepass", "right")
    async with serve(open_gate) as served:
        assert [200, 429] == await statuses(served, 2, rpm=1)
