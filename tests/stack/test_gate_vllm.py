"""The gate inside the real vLLM: its server loads it, and both count the same tokens."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import httpx
import pytest

from fakes.engine import grant, signed
from gpu_backend.gate.usage import Usage
from gpu_backend.server import Server
from nearfar.engine import local_spec
from stack.edges import UPSTREAM_KEY
from stack.gates import GATE_SECRET, GateRedis

MODEL = local_spec("cpu-small").served_name
PATH = "/v1/chat/completions"

# The first run installs vLLM, which is a download of gigabytes.
pytestmark = pytest.mark.timeout(1200)


def asked(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "Count from one to one hundred."}]
    return {"model": MODEL, "messages": messages, "max_tokens": 12} | fields


def headers(key: str, **limits: int) -> dict[str, str]:
    return {"authorization": f"Bearer {UPSTREAM_KEY}"} | signed(
        grant(key, **limits), GATE_SECRET.encode()
    )


STREAM = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def settled(vllm_redis: GateRedis, key: str, requests: int) -> Usage:
    """What a key used, once so many of its requests are in the books."""
    deadline, none = time.monotonic() + 10, Usage("acme", key)
    while (found := vllm_redis.usage().get(key, none)).requests < requests:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_nothing_unsigned_reaches_it(vllm: Server) -> None:
    bare = {"authorization": f"Bearer {UPSTREAM_KEY}"}
    for path in (PATH, "/v1/completions", "/v1/responses", "/invocations", "/tokenize"):
        reply = httpx.post(vllm.url + path, json=asked(), headers=bare)
        assert (401, "unauthorized") == (reply.status_code, reply.json()["error"]["code"])
    assert 200 == httpx.get(vllm.url + "/health").status_code
    assert 200 == httpx.get(vllm.url + "/v1/models", headers=bare).status_code


def test_it_still_asks_for_its_own_key(vllm: Server) -> None:
    granted = signed(grant("nokey"), GATE_SECRET.encode())
    assert 401 == httpx.post(vllm.url + PATH, json=asked(), headers=granted).status_code


def test_what_it_counts_is_what_is_settled(vllm: Server, vllm_redis: GateRedis) -> None:
    whole = httpx.post(vllm.url + PATH, json=asked(), headers=headers("count", rpm=9), timeout=60)
    assert 200 == whole.status_code
    assert "8" == whole.headers["x-ratelimit-remaining-requests"]
    assert whole.headers["x-nearfar-load"].startswith("in_flight=1;capacity=12;seats=8;queued=0")
    body = asked(**STREAM)
    with httpx.stream(
        "POST", vllm.url + PATH, json=body, headers=headers("count"), timeout=60
    ) as reply:
        text = reply.read().decode()
    last = re.findall(r'"completion_tokens":(\d+)', text)[-1]
    counted = settled(vllm_redis, "count", 2)
    generated = whole.json()["usage"]["completion_tokens"] + int(last)
    assert (2, 0, generated) == (counted.requests, counted.aborted, counted.generated)


def test_an_aborted_stream_is_an_estimate_close_to_what_was_sent(
    vllm: Server, vllm_redis: GateRedis
) -> None:
    body, counts = asked(**STREAM, max_tokens=400, ignore_eos=True), []
    with httpx.stream(
        "POST", vllm.url + PATH, json=body, headers=headers("abort", par=1), timeout=60
    ) as reply:
        for line in reply.iter_lines():
            counts += [int(n) for n in re.findall(r'"completion_tokens":(\d+)', line)]
            if counts and counts[-1] >= 10:
                break
    counted = settled(vllm_redis, "abort", 1)
    assert (1, 0) == (counted.aborted, counted.generated)
    assert 10 <= counted.estimated <= 60


async def test_a_full_engine_sheds_and_comes_back(vllm: Server) -> None:
    """The gate's bound and vLLM's own are the same, so it is the gate that refuses."""
    async with httpx.AsyncClient(timeout=120) as client:

        async def one(n: int) -> httpx.Response:
            granted = signed(grant(f"k{n}", tenant=f"t{n}", priority=2), GATE_SECRET.encode())
            bearer = {"authorization": f"Bearer {UPSTREAM_KEY}"}
            body = asked(max_tokens=24, ignore_eos=True)
            return await client.post(vllm.url + PATH, json=body, headers=bearer | granted)

        replies = await asyncio.gather(*(one(n) for n in range(30)))
        assert [200] * 12 + [503] * 18 == sorted(reply.status_code for reply in replies)
        for reply in replies:
            if reply.status_code == 503:
                assert "overloaded" == reply.json()["error"]["code"]
                assert int(reply.headers["retry-after"]) >= 1
        assert 200 == (await one(99)).status_code


def test_its_log_tells_of_no_trouble(vllm: Server) -> None:
    log = Path(vllm.log).read_text(encoding="utf-8")
    assert "Task was destroyed" not in log
    assert "never retrieved" not in log
