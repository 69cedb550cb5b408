"""Hits are limited at the edge, exactly, and told to the gate once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge_frontend import grant
from edge_frontend.errors import UpstreamUnreachable
from edge_frontend.limits import Limits
from edge_frontend.ports import Add, Get, Spend
from fakes.edge import USAGE, Edge, Response, Scripted, chat, make_key, run, stream
from gpu_backend import grant as gate

SECRET = "g" * 32
UNLIMITED = make_key()
THREE = make_key(key_id="three", limits=Limits(rpm=3))
TOKENS = USAGE["completion_tokens"]


def an_edge() -> Edge:
    return Edge.with_store(gate_secret=SECRET)


def ask(edge: Edge, text: str = "same", key: str = UNLIMITED, **fields: Any) -> Response:
    """A request's answer, once what the edge does after it is done too."""

    async def scene() -> Response:
        response = await edge.ask(chat(text, **fields), key=key)
        await asyncio.sleep(0.001)
        return response

    return run(scene())


def told(edge: Edge) -> list[tuple[int, int]]:
    """What each call told the gate of hits and of their tokens."""
    grants = [dict(call.headers)[grant.HEADER] for call in edge.upstream.calls]
    read = [gate.verify(value, [SECRET.encode()], edge.clock.wall_s()) for value in grants]
    return [(one.hits, one.cached_tokens) for one in read]


def statuses(edge: Edge, count: int, key: str = THREE) -> list[int]:
    return [ask(edge, key=key).status for _ in range(count)]


def test_a_key_has_as_many_hits_a_minute_as_it_may_have_requests() -> None:
    edge = an_edge()
    assert [200, 200, 200, 200, 429, 429] == statuses(edge, 6), "a miss is not a hit"
    refused = ask(edge, key=THREE)
    assert ("rate_limit_exceeded", "hit") == (refused.error["code"], refused.log["cache"])  # type: ignore[index]
    assert "60" == refused.headers["retry-after"]
    assert 1 == len(edge.upstream.calls)


def test_the_wait_is_that_of_the_oldest_hit() -> None:
    edge = an_edge()
    statuses(edge, 2)
    edge.clock.advance(20_000)
    assert [200, 200, 429] == statuses(edge, 3)
    assert "40" == ask(edge, key=THREE).headers["retry-after"]
    edge.clock.advance(40_001)
    assert [200, 429] == statuses(edge, 2)


def test_no_minute_holds_more_wherever_it_begins() -> None:
    edge = an_edge()
    ask(edge, key=THREE)
    passed = list[float]()
    for _ in range(400):
        edge.clock.advance(731)
        if ask(edge, key=THREE).status == 200:
            passed.append(edge.clock.now_ms())
    assert all(later - one >= 60_000 for one, later in zip(passed, passed[3:], strict=False))
    assert len(passed) >= 3 * (400 * 731 // 60_000)


def test_a_burst_over_two_edges_passes_no_more() -> None:
    edge = an_edge()
    ask(edge, key=THREE)
    edges = [edge, edge.beside()]

    async def burst() -> list[int]:
        asked = [edges[number % 2].ask(chat("same"), key=THREE) for number in range(60)]
        return [response.status for response in await asyncio.gather(*asked)]

    assert 3 == run(burst()).count(200)


def test_who_follows_an_answer_counts_as_a_hit() -> None:
    edge = an_edge()
    edge.upstream.usual = Scripted(stream("x"), head_ms=200)

    async def burst() -> list[Response]:
        edges = [edge, edge.beside()]
        asked = [edges[number % 2].ask(chat("same"), key=THREE) for number in range(20)]
        return list(await asyncio.gather(*asked))

    replies = run(burst())
    assert 4 == sum(reply.status == 200 for reply in replies), "the leader and three"
    assert 1 == len(edge.upstream.calls)
    assert all("retry-after" in reply.headers for reply in replies if reply.status == 429)


def test_a_key_without_a_limit_has_as_many_as_it_likes() -> None:
    edge = an_edge()
    assert [200] * 20 == statuses(edge, 20, UNLIMITED)
    assert edge.store is not None
    assert not any(isinstance(op, Spend) for batch in edge.store.batches for op in batch)


def test_a_limit_of_nothing_lets_no_hit_pass() -> None:
    edge = an_edge()
    none = make_key(key_id="none", limits=Limits(rpm=0))
    assert [200, 429] == statuses(edge, 2, none)  # what is no hit is for the gate to refuse


def test_keys_and_tenants_are_counted_apart() -> None:
    edge = an_edge()
    assert [200, 200, 200, 200, 429] == statuses(edge, 5)
    same_id = make_key(tenant="other", key_id="three", limits=Limits(rpm=3))
    other_id = make_key(key_id="four", limits=Limits(rpm=3))
    assert [200, 200, 200, 200, 429] == statuses(edge, 5, same_id)
    assert [200, 200, 200, 429] == statuses(edge, 4, other_id), "its tenant's first answer is there"


def test_a_store_that_is_away_limits_nobody() -> None:
    edge = an_edge()
    statuses(edge, 4)
    assert edge.store is not None
    edge.store.refused = (Spend,)
    assert 200 == ask(edge, key=THREE).status


def test_without_a_gate_nothing_is_counted() -> None:
    edge = Edge.with_store()
    assert [200] * 6 == statuses(edge, 6)
    assert edge.store is not None
    assert not any(isinstance(op, Add | Spend) for batch in edge.store.batches for op in batch)


# What the gate is told.


def test_the_next_miss_tells_of_the_hits_once() -> None:
    edge = an_edge()
    ask(edge)
    assert ["hit", "hit"] == [ask(edge).headers["x-cache"] for _ in range(2)]
    ask(edge, "second")
    ask(edge, "third")
    assert [(0, 0), (2, 2 * TOKENS), (0, 0)] == told(edge)


def test_hits_that_come_between_are_told_later() -> None:
    edge = an_edge()
    edge.upstream.usual = Scripted(stream("x"), head_ms=300)
    ask(edge)
    ask(edge)

    async def scene() -> None:
        asking = asyncio.ensure_future(edge.ask(chat("second"), key=UNLIMITED))
        await asyncio.sleep(0.1)
        await edge.ask(chat("same"), key=UNLIMITED)
        await asking

    run(scene())
    ask(edge, "third")
    assert [(0, 0), (1, TOKENS), (1, TOKENS)] == told(edge)


@pytest.mark.parametrize(
    "failure",
    [UpstreamUnreachable("x"), Scripted([b"{}"], status=401), Scripted([b"{}"], status=409)],
    ids=["unreachable", "not a grant", "used before"],
)
def test_a_miss_that_the_gate_did_not_read_loses_nothing(failure: Any) -> None:
    edge = an_edge()
    ask(edge)
    ask(edge)
    edge.upstream.enqueue(failure)
    assert 502 == ask(edge, "second").status
    ask(edge, "third")
    ask(edge, "fourth")
    assert [(0, 0), (1, TOKENS), (1, TOKENS), (0, 0)] == told(edge)


@pytest.mark.parametrize("status", [200, 429, 503, 500, 403])
def test_a_refusal_that_the_gate_read_has_told_it(status: int) -> None:
    edge = an_edge()
    ask(edge)
    ask(edge)
    pieces = stream("x") if status == 200 else [b"{}"]
    edge.upstream.enqueue(Scripted(pieces, status=status))
    ask(edge, "second")
    ask(edge, "third")
    assert [(0, 0), (1, TOKENS), (0, 0)] == told(edge)


def test_an_answer_that_broke_off_on_its_way_to_a_follower_is_no_hit() -> None:
    edge = an_edge()
    edge.upstream.usual = Scripted(stream("x")[:2])

    async def both() -> list[Response]:
        leading = asyncio.ensure_future(edge.ask(chat(stream=True)))
        await asyncio.sleep(0.01)
        return [await edge.beside().ask(chat(stream=True)), await leading]

    run(both())
    assert not [name for name in edge.store.names() if "unreported" in name]  # type: ignore[union-attr]


def test_a_request_that_cannot_be_a_hit_asks_the_store_for_nothing_more() -> None:
    edge = an_edge()
    ask(edge)
    assert edge.store is not None
    edge.upstream.usual = Scripted(
        stream("x"),
        headers=(
            ("content-type", b"text/event-stream"),
            ("x-nearfar-load", b"in_flight=1;capacity=9"),
        ),
    )
    ask(edge, "second")
    before = len(edge.store.batches)
    ask(edge, temperature=1)
    assert not any(isinstance(op, Get) for batch in edge.store.batches[before:] for op in batch)
