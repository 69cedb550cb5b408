"""The gate as a process of its own, in front of a server that cannot load it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import redis

from fakes.engine import SECRET, grant, signed, until
from fakes.redis_process import RedisServer
from fakes.script import Script
from fakes.upstream import Upstream
from gpu_backend.gate import usage
from gpu_backend.gate.usage import month_of

PACKAGES = Path(__file__).parents[3] / "gpu-backend"


class Running:
    """One gate process in front of `upstream`."""

    def __init__(self, upstream: str, *more: str, **variables: str) -> None:
        given = {f"NEARFAR_GATE_{name}": value for name, value in variables.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpu_backend.gate", "--upstream", upstream, *more],
            env={"PATH": os.defpath, "PYTHONPATH": str(PACKAGES), **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        return str(json.loads(line)["url"])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(15)
        self.close()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(api_key="upstream-key") as running:
        yield running


@pytest.fixture
def start(
    upstream: Upstream, redis_process: RedisServer, store: redis.Redis
) -> Iterator[list[Running]]:
    """Two gates that share a Redis."""
    secret, url = SECRET.decode(), redis_process.url
    gates = [Running(upstream.url, SECRET=secret, REDIS=url, LEASE_S="3") for _ in range(2)]
    yield gates
    for gate in gates:
        gate.close()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=20) as made:
        yield made


def body(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "one two three four five"}]
    return {"model": "mock", "messages": messages} | fields


def headers(name: str, **limits: int) -> dict[str, str]:
    return {"authorization": "Bearer upstream-key", **signed(grant(name, **limits))}


PATH = "/v1/chat/completions"
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


async def test_it_is_the_same_gate(
    upstream: Upstream,
    start: list[Running],
    client: httpx.AsyncClient,
    store: redis.Redis,
    name: str,
) -> None:
    url = start[0].url
    direct = await client.post(
        upstream.url + PATH, json=body(**STREAM), headers={"authorization": "Bearer upstream-key"}
    )
    reply = await client.post(url + PATH, json=body(**STREAM), headers=headers(name, rpm=1))
    assert 200 == reply.status_code
    assert _without_ids(direct.text) == _without_ids(reply.text)
    assert "0" == reply.headers["x-ratelimit-remaining-requests"]
    assert "x-nearfar-load" in reply.headers
    again = await client.post(url + PATH, json=body(), headers=headers(name, rpm=1))
    assert (429, "rate_limit_exceeded") == (again.status_code, again.json()["error"]["code"])
    assert 401 == (await client.post(url + PATH, json=body())).status_code
    assert 200 == (await client.get(url + "/health")).status_code
    await until(lambda: bool(usage.read(store, month_of(time.time()))))
    (row,) = usage.read(store, month_of(time.time()))
    usage_chunk = json.loads(direct.text.split("data: ")[-2])["usage"]
    assert (1, usage_chunk["completion_tokens"]) == (row.requests, row.generated)


def _without_ids(text: str) -> list[object]:
    found: list[object] = []
    for line in text.splitlines():
        event = line.removeprefix("data: ")
        if event.startswith("{"):
            found.append({k: v for k, v in json.loads(event).items() if k not in ("id", "created")})
        else:
            found.append(event)
    return found


async def test_the_server_sees_neither_grant_nor_hop_headers(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    more = {"connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers", "x-request-id": "r9"}
    await client.post(start[0].url + PATH, json=body(), headers=headers("k") | more)
    seen = {key.lower(): value for key, value in upstream.requests[0].headers}
    assert not {"x-nearfar-grant", "x-hop", "te"} & seen.keys()
    assert ("r9", "Bearer upstream-key") == (seen["x-request-id"], seen["authorization"])


async def test_pieces_pass_when_they_come(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    upstream.script = Script(pieces=("a", "b", "c"), gap_ms=150)
    began = time.monotonic()
    async with client.stream(
        "POST", start[0].url + PATH, json=body(**STREAM), headers=headers("k")
    ) as reply:
        seen = [time.monotonic() - began async for _ in reply.aiter_raw()]
    assert seen[-1] - seen[0] > 0.25


async def test_connections_to_the_server_are_used_again_and_replaced_when_it_closed_them(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    url = start[0].url
    for _ in range(5):
        assert 200 == (await client.post(url + PATH, json=body(), headers=headers("k"))).status_code
    assert 1 == upstream.connections
    await upstream.stop()
    await upstream.start()
    assert 200 == (await client.post(url + PATH, json=body(), headers=headers("k"))).status_code


async def test_a_server_that_is_not_there_is_a_502(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    url = start[0].url
    await upstream.stop()
    reply = await client.post(url + PATH, json=body(), headers=headers("k"))
    assert (502, "upstream_unreachable") == (reply.status_code, reply.json()["error"]["code"])


async def test_a_stream_that_breaks_off_breaks_off_at_the_client_too(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    upstream.script = Script(pieces=("a", "b", "c"), end="rst")
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(start[0].url + PATH, json=body(**STREAM), headers=headers("k"))


async def test_a_client_that_leaves_ends_the_servers_work_within_a_second(
    upstream: Upstream, start: list[Running], client: httpx.AsyncClient
) -> None:
    upstream.script = Script(pieces=tuple("abcdefgh" * 20), gap_ms=50)
    async with client.stream(
        "POST", start[0].url + PATH, json=body(**STREAM), headers=headers("k")
    ) as reply:
        async for _ in reply.aiter_raw():
            break
        left = time.monotonic()
    await upstream.wait_closed(0, timeout_s=3)
    assert time.monotonic() - left < 1


async def test_a_killed_gate_leaves_nothing_held(
    upstream: Upstream,
    start: list[Running],
    client: httpx.AsyncClient,
    store: redis.Redis,
    name: str,
) -> None:
    """A slot is kept for as long as its gate lives, and for one lease (3 s) after."""
    upstream.script = Script(pieces=tuple("abcdefgh" * 100), gap_ms=50)
    first, second = start[0].url, start[1].url

    async def endless() -> None:
        async with client.stream(
            "POST", first + PATH, json=body(**STREAM), headers=headers(name, par=1)
        ) as reply:
            async for _ in reply.aiter_raw():
                pass

    async def status() -> int:
        asked = body(max_tokens=1)
        return (
            await client.post(second + PATH, json=asked, headers=headers(name, par=1))
        ).status_code

    running = asyncio.create_task(endless())
    await upstream.wait_for_request()
    await asyncio.sleep(3.5)  # longer than a lease: it is renewed
    upstream.script = Script()
    assert 429 == await status()
    start[0].process.kill()
    killed = time.monotonic()
    with contextlib.suppress(httpx.HTTPError):
        await running
    for _ in range(60):
        if await status() != 429:
            break
        await asyncio.sleep(0.1)
    assert time.monotonic() - killed < 3.5
    await until(lambda: store.zcard(f"nf:gate:1:live:acme/{name}") == 0)


async def test_it_ends_in_order_when_asked(start: list[Running]) -> None:
    assert start[0].url
    assert 0 == start[0].stop()


def test_wrong_settings_are_told_in_one_line() -> None:
    gate = Running("http://127.0.0.1:1", SECRET="short", WITHOUT_REDIS="maybe")
    assert 2 == gate.process.wait(15)
    assert gate.process.stderr is not None
    (told,) = gate.process.stderr.read().splitlines()
    assert "NEARFAR_GATE_SECRET must" in told
    assert "NEARFAR_GATE_WITHOUT_REDIS must" in told
    gate.close()


@pytest.mark.parametrize("address", ["ftp://x", "localhost:8000", "http://"])
def test_an_upstream_that_is_no_address_is_told(address: str) -> None:
    gate = Running(address)
    assert 2 == gate.process.wait(15)
    gate.close()
