"""A request that reaches the host's deadline says so itself, before the host ends it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from edge_frontend.forward import LAST_WORD_MS
from fakes.edge import Edge, Response, Scripted, Wait, chat, run, stream

DEADLINE_MS = 3_000
SLOW: list[Any] = [*stream("a", "b")[:2], Wait(10_000), *stream("a", "b")[2:]]


def an_edge(*pieces: Any, **scripted: Any) -> Edge:
    edge = Edge.with_store(deadline_ms=str(DEADLINE_MS))
    edge.upstream.usual = Scripted(pieces or SLOW, **scripted)
    return edge


def last_event(response: Response) -> Any:
    return json.loads(response.payloads()[-1])


def test_a_stream_that_reaches_it_ends_in_an_event_that_says_so() -> None:
    edge = an_edge()
    began_ms = edge.clock.now_ms()
    response = run(edge.ask(chat(stream=True)))
    assert (200, "a") == (response.status, response.text())
    assert "deadline_exceeded" == last_event(response)["error"]["code"]
    assert b"[DONE]" not in response.body
    assert DEADLINE_MS - LAST_WORD_MS == pytest.approx(edge.clock.now_ms() - began_ms, abs=30)
    assert edge.upstream.sources[0].closed
    assert response.log is not None
    assert "deadline_exceeded" == response.log["error"]


def test_such_an_answer_is_not_kept() -> None:
    edge = an_edge()
    assert ["miss", "miss"] == [
        run(edge.ask(chat(stream=True))).headers["x-cache"] for _ in range(2)
    ]


def test_one_body_that_reaches_it_is_no_whole_answer() -> None:
    response = run(an_edge().ask(chat()))
    assert "deadline_exceeded" == response.error["code"]
    assert response.sink.aborted, "its head was out: the client must see that it is not whole"


def test_a_head_that_does_not_come_in_time_is_a_timeout() -> None:
    edge = an_edge()
    run(edge.ask(chat()))
    (call,) = edge.upstream.calls
    assert DEADLINE_MS - LAST_WORD_MS == call.first_byte_timeout_ms


def test_time_that_has_passed_before_the_call_counts() -> None:
    edge = an_edge(*stream("x"))
    assert edge.store is not None
    edge.store.delay_ms = 200
    run(edge.ask(chat()))
    assert DEADLINE_MS - LAST_WORD_MS - 200 == edge.upstream.calls[0].first_byte_timeout_ms


def test_an_answer_that_comes_in_time_is_whole_and_leaves_no_alarm() -> None:
    edge = an_edge(*stream("a"))
    response = run(edge.ask(chat(stream=True)))
    assert response.body.endswith(b"[DONE]\n\n")
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


def test_who_follows_has_the_deadline_of_its_own_request() -> None:
    edge = an_edge()

    async def both() -> list[Response]:
        leading = asyncio.ensure_future(edge.ask(chat(stream=True)))
        await asyncio.sleep(1.0)
        following = asyncio.ensure_future(edge.beside().ask(chat(stream=True)))
        return [await leading, await following]

    leader, follower = run(both())
    assert "deadline_exceeded" == last_event(leader)["error"]["code"]
    assert "shared" == follower.headers["x-cache"]
    assert last_event(follower)["error"]["code"] in ("deadline_exceeded", "upstream_broke")
    assert b"[DONE]" not in follower.body


def test_without_one_a_slow_answer_comes_whole() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted(SLOW)
    assert "ab" == run(edge.ask(chat(stream=True))).text()
