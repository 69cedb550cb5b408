"""One limit of requests a minute for hits and misses, of a key and of its tenant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_frontend.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from edge_frontend.limits import Limits
from edge_frontend.ports import Spend
from fakes.edge import Edge, Response, Scripted, chat, make_key, run, stream

SECRET = "g" * 32
THREE = make_key(key_id="three", limits=Limits(rpm=3))
FREE = make_key(key_id="free")


def an_edge(**more: Any) -> Edge:
    return Edge.with_store(gate_secret=SECRET, **more)


def ask(edge: Edge, text: str = "same", key: str = THREE, **fields: Any) -> Response:
    """A request's answer, once what the edge does after it is done too."""

    async def scene() -> Response:
        response = await edge.ask(chat(text, **fields), key=key)
        await asyncio.sleep(0.001)
        return response

    return run(scene())


def statuses(edge: Edge, count: int, key: str = THREE) -> list[int]:
    return [ask(edge, key=key).status for _ in range(count)]


def test_hits_and_misses_share_one_limit() -> None:
    edge = an_edge()
    assert [200, 200, 200, 429, 429] == statuses(edge, 5), "a miss and two hits"
    refused = ask(edge)
    assert ("rate_limit_exceeded", "hit") == (refused.error["code"], refused.log["cache"])  # type: ignore[index]
    assert "60" == refused.headers["retry-after"]
    assert 429 == ask(edge, "another").status
    assert 429 == ask(edge, "not looked up", temperature=1).status
    assert 1 == len(edge.upstream.calls)


def test_what_is_not_looked_up_counts_too() -> None:
    edge = an_edge()
    for _ in range(2):
        assert "bypass" == ask(edge, temperature=1).headers["x-cache"]
    assert [200, 429] == statuses(edge, 2)


def test_the_wait_is_that_of_the_oldest() -> None:
    edge = an_edge()
    statuses(edge, 2)
    edge.clock.advance(20_000)
    assert [200, 429] == statuses(edge, 2)
    assert "40" == ask(edge).headers["retry-after"]
    edge.clock.advance(40_001)
    assert [200, 200, 429] == statuses(edge, 3)


def test_no_minute_holds_more_wherever_it_begins_and_none_less() -> None:
    edge = an_edge()
    passed = list[float]()
    for number in range(400):
        edge.clock.advance(731)
        now_ms = edge.clock.now_ms()
        before = sum(at > now_ms - 60_000 for at in passed)
        status = ask(edge, f"question {number % 4}").status
        assert (200 if before < 3 else 429) == status
        if status == 200:
            passed.append(now_ms)
    assert len(passed) >= 3 * (400 * 731 // 60_000)


def test_a_burst_over_two_edges_of_one_store_passes_no_more() -> None:
    edge = an_edge()
    edges = [edge, edge.beside()]

    async def burst() -> list[int]:
        asked = [
            edges[number % 2].ask(chat(f"question {number % 5}"), key=THREE) for number in range(60)
        ]
        return [response.status for response in await asyncio.gather(*asked)]

    assert 3 == run(burst()).count(200)


def test_who_follows_an_answer_is_counted_once() -> None:
    edge = an_edge()
    edge.upstream.usual = Scripted(stream("x"), head_ms=200)

    async def burst() -> list[Response]:
        edges = [edge, edge.beside()]
        asked = [edges[number % 2].ask(chat("same"), key=THREE) for number in range(20)]
        return list(await asyncio.gather(*asked))

    replies = run(burst())
    assert 3 == sum(reply.status == 200 for reply in replies), "the leader and two"
    assert 1 == len(edge.upstream.calls)
    assert all("retry-after" in reply.headers for reply in replies if reply.status == 429)


def test_who_is_refused_leaves_the_lead_to_another() -> None:
    edge = an_edge()
    statuses(edge, 3)
    assert 429 == ask(edge, "new").status
    before = edge.clock.now_ms()
    answered = ask(edge, "new", key=FREE)
    assert (200, "miss") == (answered.status, answered.headers["x-cache"])
    assert edge.clock.now_ms() - before < 100, "nobody waits for a lease that is not used"


def test_a_key_without_a_limit_has_as_many_as_it_likes() -> None:
    edge = an_edge()
    assert [200] * 20 == statuses(edge, 20, FREE)
    assert edge.store is not None
    assert not any(isinstance(op, Spend) for batch in edge.store.batches for op in batch)


def test_a_limit_of_nothing_lets_nothing_pass() -> None:
    none = make_key(key_id="none", limits=Limits(rpm=0))
    edge = an_edge()
    assert [429, 429] == statuses(edge, 2, none)
    assert not edge.upstream.calls


def test_keys_are_counted_apart_and_so_are_equal_ids_of_two_tenants() -> None:
    edge = an_edge()
    same_id = make_key(tenant="other", key_id="three", limits=Limits(rpm=3))
    other_id = make_key(key_id="four", limits=Limits(rpm=3))
    for key in (THREE, same_id, other_id):
        assert [200, 200, 200, 429] == statuses(edge, 4, key)


def test_all_keys_of_a_tenant_share_its_limit() -> None:
    edge = an_edge(tenants={"acme": {"rpm": 4}})
    assert [200, 200, 200] == statuses(edge, 3)
    assert [200, 429] == statuses(edge, 2, FREE)
    assert [200] * 5 == statuses(edge, 5, make_key(tenant="other"))


def test_what_the_tenant_has_no_room_for_the_key_does_not_pay() -> None:
    edge = an_edge(tenants={"acme": {"rpm": 2}})
    assert [200, 200] == statuses(edge, 2, FREE)
    edge.clock.advance(30_000)
    assert [429] * 5 == statuses(edge, 5), "each of them would have been one of the key's three"
    edge.clock.advance(30_001)
    assert [200, 200, 429] == statuses(edge, 3)


def test_a_store_that_is_away_limits_nobody() -> None:
    edge = an_edge()
    statuses(edge, 3)
    assert edge.store is not None
    edge.store.refused = (Spend,)
    assert 200 == ask(edge).status


def test_without_a_gate_nothing_is_counted() -> None:
    edge = Edge.with_store(tenants={"*": {"rpm": 1}})
    assert [200] * 6 == statuses(edge, 6)
    assert edge.store is not None
    assert not any(isinstance(op, Spend) for batch in edge.store.batches for op in batch)


@pytest.mark.parametrize(
    "refusal",
    [
        Scripted([b'{"error":{"code":"rate_limit_exceeded"}}'], status=429),
        Scripted([b'{"error":{"code":"parallel_limit_exceeded"}}'], status=429),
        Scripted([b'{"error":{"code":"key_revoked"}}'], status=403),
        Scripted([b"{}"], status=503),
        UpstreamUnreachable("x"),
    ],
    ids=["gate's rate", "gate's slots", "revoked", "busy", "nobody there"],
)
def test_a_request_that_no_server_took_is_given_back(refusal: Scripted | UpstreamError) -> None:
    edge = an_edge()
    edge.upstream.enqueue(*[refusal] * 5)
    assert 200 not in {ask(edge, f"question {number}").status for number in range(5)}
    assert [200, 200, 200, 429] == statuses(edge, 4)


@pytest.mark.parametrize(
    "failure",
    [Scripted([b"{}"], status=500), Scripted([b"{}"], status=400), UpstreamTimeout("x")],
    ids=["failed", "its own fault", "too slow"],
)
def test_a_request_that_a_server_took_counts_though_it_failed(
    failure: Scripted | UpstreamError,
) -> None:
    edge = an_edge()
    edge.upstream.enqueue(failure, failure)
    ask(edge, "one")
    ask(edge, "two")
    assert [200, 429] == statuses(edge, 2)


def rate_headers(reply: Response) -> tuple[str | None, ...]:
    names = ("limit", "remaining", "reset")
    return tuple(reply.headers.get(f"x-ratelimit-{name}-requests") for name in names)


def test_a_hit_says_what_is_left() -> None:
    edge = an_edge(tenants={"acme": {"rpm": 3}})
    ask(edge, key=FREE)
    assert ("3", "1", "60s") == rate_headers(ask(edge)), "of two limits the one with less left"
    ask(edge, key=FREE)
    assert ("3", "0", None) == rate_headers(ask(edge))


@pytest.mark.parametrize(("gates", "told"), [("7", ("3", "2", "60s")), ("1", ("9", "1", "8s"))])
def test_a_miss_says_what_is_left_where_less_is(gates: str, told: tuple[str, ...]) -> None:
    edge = an_edge()
    values = {"limit": "9", "remaining": gates, "reset": "8s"}
    heads = [(f"x-ratelimit-{name}-requests", value.encode()) for name, value in values.items()]
    edge.upstream.usual = Scripted(
        stream("x"), headers=(("content-type", b"text/event-stream"), *heads)
    )
    assert told == rate_headers(ask(edge))


@settings(max_examples=60, deadline=None)
@given(
    key_limit=st.integers(0, 4),
    tenant_limit=st.none() | st.integers(0, 5),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["one", "two"]),
            st.sampled_from(["hit", "miss", "bypass", "refused"]),
            st.sampled_from([0, 1_000, 29_999, 30_000, 60_000]),
        ),
        max_size=25,
    ),
)
def test_the_limit_is_what_a_model_says(
    key_limit: int, tenant_limit: int | None, steps: list[tuple[str, str, int]]
) -> None:
    """Never more than the limit, never less, whatever answers; what is refused is not counted."""
    edge = an_edge(tenants={} if tenant_limit is None else {"acme": {"rpm": tenant_limit}})
    passed: list[tuple[str, float]] = []
    for number, (who, kind, pause_ms) in enumerate(steps):
        edge.clock.advance(pause_ms)
        now_ms = edge.clock.now_ms()
        window = [(key, at) for key, at in passed if at > now_ms - 60_000]
        has_room = sum(key == who for key, _ in window) < key_limit and (
            tenant_limit is None or len(window) < tenant_limit
        )
        if kind == "refused":
            edge.upstream.enqueue(Scripted([b"{}"], status=503))
        text = "same" if kind == "hit" else f"question {number}"
        fields = {"temperature": 1} if kind in ("bypass", "refused") else {}
        key = make_key(key_id=who, limits=Limits(rpm=key_limit))
        status = ask(edge, text, key, **fields).status
        expected = 429 if not has_room else 503 if kind == "refused" else 200
        assert expected == status, (number, window)
        if kind == "refused" and status == 429:
            edge.upstream.forget()
        if status == 200:
            passed.append((who, now_ms))
