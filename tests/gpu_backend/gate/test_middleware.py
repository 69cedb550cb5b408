"""The gate in a real ASGI server with a real Redis, around a tiny engine."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import httpx
import pytest
import redis

from fakes.engine import PROMPT_TOKENS, SECRET, Served, grant, serve, signed, until
from gpu_backend.gate import usage
from gpu_backend.gate.settings import Settings
from gpu_backend.gate.usage import Usage, month_of

KEY = "a key of the gate's own that is long enough"


def code(reply: httpx.Response) -> str:
    return str(reply.json()["error"]["code"])


def row(store: redis.Redis, key: str) -> Usage:
    return next(
        (row for row in usage.read(store, month_of(time.time())) if row.key == key),
        Usage("acme", key),
    )


async def test_an_answer_passes_byte_by_byte_and_its_head_gains_headers(
    served: Served, name: str
) -> None:
    reply = await served.ask(grant(name, rpm=10, tpm=1000), stream=True, tokens=5)
    assert 200 == reply.status_code
    assert b"".join(served.engine.sent) == reply.content
    assert "engine" == reply.headers["x-of"]
    assert "in_flight=1;capacity=24;seats=16;queued=0" == reply.headers["x-nearfar-load"]
    limits = {k: v for k, v in reply.headers.items() if k.startswith("x-ratelimit")}
    assert {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "60s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "975",
        "x-ratelimit-reset-tokens": "60s",
    } == limits


async def test_a_whole_answer_passes_and_its_real_usage_is_counted(
    served: Served, store: redis.Redis, name: str
) -> None:
    """The answer's text holds the words of a usage field, which are not one."""
    reply = await served.ask(grant(name), tokens=4)
    assert served.engine.sent[-1] == reply.content
    await until(lambda: row(store, name).requests == 1)
    expected = Usage("acme", name, requests=1, generated=4, input=PROMPT_TOKENS, cached_input=4)
    assert expected == row(store, name)


async def test_the_engine_never_sees_the_grant(served: Served) -> None:
    await served.ask()
    assert "x-nearfar-grant" not in served.engine.seen[-1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-nearfar-grant": "nonsense"}, 401),
        (signed(grant(), b"another secret, which is long enough"), 401),
        (signed(replace(grant(), issued_s=time.time() - 3600)), 401),
        (signed(replace(grant(), issued_s=time.time() + 3600)), 401),
    ],
)
async def test_nothing_unsigned_or_stale_reaches_the_engine(
    served: Served, headers: dict[str, str], status: int
) -> None:
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/invocations"):
        reply = await served.client.post(served.url + path, json={}, headers=headers)
        assert (status, "unauthorized") == (reply.status_code, code(reply))
    assert [] == served.engine.seen


async def test_what_computes_nothing_needs_no_grant(served: Served) -> None:
    for path in ("/health", "/metrics", "/v1/models"):
        assert 200 == (await served.client.get(served.url + path)).status_code


async def test_a_grant_is_good_for_one_request(served: Served) -> None:
    once = grant()
    assert 200 == (await served.ask(once)).status_code
    again = await served.ask(once)
    assert (409, "grant_replayed") == (again.status_code, code(again))


async def test_of_many_uses_at_once_one_gets_in(settings: Settings) -> None:
    once = grant()
    async with serve(settings) as first, serve(settings) as second:
        replies = await asyncio.gather(*(gate.ask(once) for gate in (first, second) * 5))
    assert [200, *[409] * 9] == sorted(reply.status_code for reply in replies)


async def test_a_revoked_key_is_refused_at_once(
    served: Served, store: redis.Redis, name: str
) -> None:
    store.set("nf:1:revoked", json.dumps({name: int(time.time()) - 1, "another": 1}))
    reply = await served.ask(grant(name))
    assert (403, "key_revoked") == (reply.status_code, code(reply))


async def test_a_revocation_of_later_or_of_another_key_or_a_broken_list_changes_nothing(
    served: Served, store: redis.Redis, name: str
) -> None:
    later = {name: time.time() + 60, f"{name}x": 1}
    for value in (json.dumps(later), "{" + json.dumps(name), json.dumps([name]), json.dumps(name)):
        store.set("nf:1:revoked", value)
        assert 200 == (await served.ask(grant(name))).status_code


async def test_a_burst_through_two_gates_gets_exactly_its_limit(
    settings: Settings, name: str
) -> None:
    """Ten a minute, sixty at once, two gates, one Redis; there are places for all of them."""
    wide = replace(settings, max_running=60)
    async with serve(wide) as first, serve(wide) as second:
        gates = (first, second) * 30
        replies = await asyncio.gather(
            *(gate.ask(grant(name, rpm=10, priority=2), gap_ms=0) for gate in gates)
        )
    admitted = [reply for reply in replies if reply.status_code == 200]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert (10, 50) == (len(admitted), len(refused))
    for reply in refused:
        assert "rate_limit_exceeded" == code(reply)
        assert "requests" == reply.json()["error"]["type"]
        assert 58 <= int(reply.headers["retry-after"]) <= 60
        assert "0" == reply.headers["x-ratelimit-remaining-requests"]


async def test_parallel_requests_are_bounded_and_a_slot_is_free_when_its_answer_has_ended(
    served: Served, name: str
) -> None:
    async def asked(gap_ms: int) -> httpx.Response:
        return await served.ask(grant(name, par=2), stream=True, tokens=4, gap_ms=gap_ms)

    running = [asyncio.create_task(asked(60)) for _ in range(2)]
    await until(lambda: served.engine.running == 2)
    third = await asked(0)
    assert (429, "parallel_limit_exceeded") == (third.status_code, code(third))
    assert "1" == third.headers["retry-after"]
    await asyncio.gather(*running)
    for _ in range(20):
        assert 200 == (await asked(0)).status_code


async def test_reserved_tokens_make_room_for_the_real_ones(served: Served, name: str) -> None:
    """25 are reserved each time and 3 generated: the fourth only fits because of settlement."""
    for n in range(4):
        reply = await served.ask(grant(name, tpm=40, par=1), tokens=3)
        assert str(40 - 3 * n - 25) == reply.headers["x-ratelimit-remaining-tokens"]
    for _ in range(2):
        await served.ask(grant(name, tpm=40, par=1), tokens=3)
    refused = await served.ask(grant(name, tpm=40, par=1))
    assert (429, "rate_limit_exceeded") == (refused.status_code, code(refused))
    assert "tokens" == refused.json()["error"]["type"]
    assert 58 <= int(refused.headers["retry-after"]) <= 60


async def test_a_request_above_the_token_limit_is_told_to_ask_for_less(
    served: Served, name: str
) -> None:
    reply = await served.ask(grant(name, tpm=24))
    assert "ask for fewer" in reply.json()["error"]["message"]


async def test_a_months_budget_ends(served: Served, name: str) -> None:
    for _ in range(2):
        assert 200 == (await served.ask(grant(name, month=30, par=1), tokens=5)).status_code
    reply = await served.ask(grant(name, month=30, par=1), tokens=5)
    assert (429, "monthly_budget_exceeded") == (reply.status_code, code(reply))
    assert 0 < int(reply.headers["retry-after"]) <= 31 * 86_400


async def test_hits_at_the_edge_are_counted_even_when_the_request_is_refused(
    served: Served, store: redis.Redis, name: str
) -> None:
    await served.ask(grant(name, rpm=1, hits=3, cached_tokens=40))
    await served.ask(grant(name, rpm=1, hits=2, cached_tokens=5))
    await until(lambda: row(store, name).hits == 5)
    assert (1, 45) == (row(store, name).requests, row(store, name).cached)


async def test_a_client_that_leaves_frees_everything_and_is_counted_as_an_estimate(
    served: Served, store: redis.Redis, name: str
) -> None:
    async def leave_after(pieces: int, **body: object) -> None:
        headers = signed(grant(name, par=1))
        asked = {"stream": True, "tokens": 500, "gap_ms": 10} | body
        async with served.client.stream("POST", served.url, json=asked, headers=headers) as reply:
            seen = 0
            async for _ in reply.aiter_raw():
                seen += 1
                if seen == pieces:
                    return

    for kind in ("continuous", "none"):
        before = row(store, name)
        await leave_after(8, usage=kind)
        await until(lambda: served.engine.running == 0 == served.gate.load.in_flight)
        await until(lambda: row(store, name).aborted > before.aborted)  # noqa: B023
        counted = row(store, name)
        assert 5 <= counted.estimated - before.estimated <= 40
        assert 0 == counted.generated
        assert 200 == (await served.ask(grant(f"{name}-next", par=1))).status_code
    assert 0 == store.zcard(f"nf:gate:1:live:acme/{name}")


async def test_a_stream_without_usage_is_an_estimate_from_its_events(
    served: Served, store: redis.Redis, name: str
) -> None:
    await served.ask(grant(name), stream=True, tokens=6, usage="none")
    await until(lambda: row(store, name).requests == 1)
    # Role, six tokens and [DONE]: one event too many.
    assert (0, 7, 1) == (
        row(store, name).generated,
        row(store, name).estimated,
        row(store, name).aborted,
    )


async def test_an_engine_that_is_full_says_when_to_come_back_and_nothing_is_counted(
    served: Served, store: redis.Redis, name: str
) -> None:
    reply = await served.ask(grant(name, rpm=1), status=503)
    assert (503, "1") == (reply.status_code, reply.headers["retry-after"])
    await until(lambda: store.zcard(f"nf:gate:1:log:acme/{name}") == 0)
    assert 200 == (await served.ask(grant(name, rpm=1))).status_code
    await until(lambda: row(store, name).requests == 1)


async def test_an_error_of_the_engine_counts_as_a_request_without_tokens(
    served: Served, store: redis.Redis, name: str
) -> None:
    assert 400 == (await served.ask(grant(name), status=400)).status_code
    assert 500 == (await served.ask(grant(name), crash=True)).status_code
    await until(lambda: row(store, name).requests == 2)
    assert Usage("acme", name, requests=2, failed=2) == row(store, name)


async def test_a_full_engine_sheds_before_it_is_asked(settings: Settings) -> None:
    small = replace(settings, max_running=2, max_waiting=2)
    async with serve(small) as served:
        slow = [
            asyncio.create_task(served.ask(grant(tenant=f"t{n}", priority=2), gap_ms=100))
            for n in range(4)
        ]
        await until(lambda: served.engine.running == 4)
        shed = await served.ask(grant(tenant="t9", priority=2))
        assert (503, "overloaded") == (shed.status_code, code(shed))
        assert int(shed.headers["retry-after"]) >= 1
        assert "in_flight=4;capacity=4;seats=2;queued=2" == shed.headers["x-nearfar-load"]
        await asyncio.gather(*slow)
        assert 200 == (await served.ask()).status_code


async def test_choices_take_a_place_each(settings: Settings) -> None:
    async with serve(replace(settings, max_running=2, max_waiting=2)) as served:
        slow = asyncio.create_task(served.ask(grant(tenant="a", choices=3, priority=2), gap_ms=60))
        await until(lambda: served.engine.running == 1)
        assert 503 == (await served.ask(grant(tenant="b", choices=2, priority=2))).status_code
        assert 200 == (await served.ask(grant(tenant="b", priority=2))).status_code
        await slow


async def test_without_a_secret_everything_passes_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(Settings()) as served:
        reply = await served.client.post(served.url, json={"tokens": 2})
        assert 200 == reply.status_code
        assert "x-nearfar-load" not in reply.headers
    assert 1 == caplog.text.count("The gate is off")


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer " + KEY}, 200),
    ],
)
async def test_a_key_of_the_gate_itself_is_asked_of_every_caller(
    given: dict[str, str], status: int
) -> None:
    """For a server behind it that asks for none; a grant alone is not enough then."""
    async with serve(Settings(secrets=(SECRET,), api_key=KEY.encode())) as guarded:
        asked = signed(grant()) | given
        reply = await guarded.client.post(guarded.url + "/v1/completions", json={}, headers=asked)
        listed = await guarded.client.get(guarded.url + "/v1/models", headers=given)
    assert (status, status) == (reply.status_code, listed.status_code)
    assert (0 if status == 401 else 2) == len(guarded.engine.seen)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/nearfar/metrics"])
async def test_the_cluster_asks_for_health_and_metrics_without_a_key(path: str) -> None:
    async with serve(Settings(secrets=(SECRET,), api_key=KEY.encode())) as guarded:
        assert 200 == (await guarded.client.get(guarded.url + path)).status_code
