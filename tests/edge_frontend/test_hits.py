"""Hits are told to the gate once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge_frontend import grant
from edge_frontend.errors import UpstreamUnreachable
from edge_frontend.ports import Add, Get
from fakes.edge import USAGE, Edge, Response, Scripted, chat, run, stream
from gpu_backend import grant as gate

SECRET = "g" * 32
TOKENS = USAGE["completion_tokens"]


def an_edge() -> Edge:
    return Edge.with_store(gate_secret=SECRET)


def ask(edge: Edge, text: str = "same", **fields: Any) -> Response:
    """A request's answer, once what the edge does after it is done too."""

    async def scene() -> Response:
        response = await edge.ask(chat(text, **fields))
        await asyncio.sleep(0.001)
        return response

    return run(scene())


def told(edge: Edge) -> list[tuple[int, int]]:
    """What each call told the gate of hits and of their tokens."""
    grants = [dict(call.headers)[grant.HEADER] for call in edge.upstream.calls]
    read = [gate.verify(value, [SECRET.encode()], edge.clock.wall_s()) for value in grants]
    return [(one.hits, one.cached_tokens) for one in read]


def test_without_a_gate_nothing_is_counted() -> None:
    edge = Edge.with_store()
    assert ["miss", "hit"] == [ask(edge).headers["x-cache"] for _ in range(2)]
    assert edge.store is not None
    assert not any(isinstance(op, Add) for batch in edge.store.batches for op in batch)


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
        asking = asyncio.ensure_future(edge.ask(chat("second")))
        await asyncio.sleep(0.1)
        await edge.ask(chat("same"))
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
