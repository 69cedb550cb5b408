"""What the gate counts for Prometheus, read as Prometheus would."""

from __future__ import annotations

import re

import httpx

from fakes.engine import PROMPT_TOKENS, Served, grant, serve, signed, until
from fakes.redis_process import RedisServer
from gpu_backend.gate import metrics
from gpu_backend.gate.settings import Settings

LINE = re.compile(r"(nearfar_gate_\w+)\{(.*)\} (\d+)")


async def scrape(served: Served) -> dict[tuple[str, str], int]:
    """(name, labels) → value; every line that is no comment has to be a sample."""
    reply = await served.client.get(served.url + metrics.PATH)
    assert 200 == reply.status_code
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: dict[tuple[str, str], int] = {}
    for line in reply.text.splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(LINE, line).groups()  # type: ignore[union-attr]
            samples[name.removeprefix("nearfar_gate_"), labels] = int(value)
    return samples


async def test_an_answer_is_counted_with_its_real_tokens_and_the_hits_that_it_told(
    served: Served, name: str
) -> None:
    await served.ask(grant(name, hits=3, cached_tokens=40), tokens=4)
    found = await scrape(served)
    assert 1 == found["answers_total", 'ended="complete"']
    assert 4 == found["generated_tokens_total", 'counted="exact"']
    assert PROMPT_TOKENS == found["input_tokens_total", ""]
    assert (3, 40) == (found["edge_hits_total", ""], found["edge_hit_tokens_total", ""])


async def test_a_refusal_is_counted_by_its_code(served: Served, name: str) -> None:
    await served.client.post(served.url + "/v1/completions", json={})
    await served.ask(grant(name, rpm=1))
    await served.ask(grant(name, rpm=1, hits=2))
    found = await scrape(served)
    assert 1 == found["refusals_total", 'code="unauthorized"']
    assert 1 == found["refusals_total", 'code="rate_limit_exceeded"']
    assert 2 == found["edge_hits_total", ""]


async def test_hits_of_a_grant_that_is_used_twice_are_counted_once(
    served: Served, name: str
) -> None:
    twice = grant(name, hits=5)
    await served.ask(twice)
    assert 409 == (await served.ask(twice)).status_code
    found = await scrape(served)
    assert 5 == found["edge_hits_total", ""]
    assert 1 == found["refusals_total", 'code="grant_replayed"']


async def test_an_engine_that_is_full_leaves_an_undone_answer_and_no_tokens(
    served: Served, name: str
) -> None:
    await served.ask(grant(name), status=503)
    found = await scrape(served)
    assert 1 == found["answers_total", 'ended="undone"']
    assert ("generated_tokens_total", 'counted="exact"') not in found


async def test_places_are_told_while_a_request_runs(served: Served, name: str) -> None:
    url = served.url + "/v1/chat/completions"
    asked = {"stream": True, "tokens": 50, "gap_ms": 20}
    async with served.client.stream("POST", url, json=asked, headers=signed(grant(name))):
        found = await scrape(served)
    assert (1, 16, 24) == tuple(found[gauge, ""] for gauge in ("in_flight", "seats", "capacity"))


async def test_redis_is_up_or_down_and_absent_where_there_is_none(
    served: Served, redis_process: RedisServer, name: str
) -> None:
    assert 1 == (await scrape(served))["redis_up", ""]
    redis_process.stop()
    try:
        await served.ask(grant(name))
        await until(lambda: not served.gate.limiter.redis_up)
        assert 0 == (await scrape(served))["redis_up", ""]
    finally:
        redis_process.start()
    async with serve(Settings(secrets=(b"x" * 32,))) as alone:
        assert ("redis_up", "") not in await scrape(alone)


async def test_the_names_are_there_before_anything_was_asked_and_hold_no_tenant(
    served: Served, name: str
) -> None:
    await served.ask(grant(name, tenant="acme-of-nowhere"))
    text = (await served.client.get(served.url + metrics.PATH)).text
    assert {f"# TYPE nearfar_gate_{m} {kind}" for m, (kind, _) in metrics.NAMES.items()} == {
        line for line in text.splitlines() if line.startswith("# TYPE")
    }
    assert name not in text
    assert "acme-of-nowhere" not in text


async def test_a_gate_that_is_off_still_tells_and_the_engine_never_sees_the_path() -> None:
    async with serve(Settings()) as off, httpx.AsyncClient() as client:
        assert 200 == (await client.get(off.url + metrics.PATH)).status_code
        assert not off.engine.seen
