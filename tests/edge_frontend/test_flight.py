"""Concurrent equal misses, on several machines over one store."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_frontend import flight
from edge_frontend.errors import UpstreamBroke
from edge_frontend.flight import SEGMENT_BYTES, Lead, Live
from edge_frontend.ports import Claim, Get, Put
from fakes.edge import (
    DONE,
    Edge,
    MemoryStore,
    Piece,
    RecordingSink,
    Response,
    Scripted,
    VirtualClock,
    Wait,
    chat,
    make_key,
    make_settings,
    run,
    stream,
)

EVENTS = stream("Hello", " there")
SLOW = Scripted([*EVENTS[:2], Wait(1_000), *EVENTS[2:]])


async def later(delay_ms: float, work: Coroutine[Any, Any, Response]) -> Response:
    await asyncio.sleep(delay_ms / 1000)
    return await work


def together(edge: Edge, *asked: tuple[float, dict[str, Any]], **more: Any) -> list[Response]:
    """The responses of one machine each, asked at these times."""

    async def all_of_them() -> list[Response]:
        machines = [edge, *(edge.beside() for _ in asked[1:])]
        works = [
            later(at_ms, machine.ask(body, **more))
            for machine, (at_ms, body) in zip(machines, asked, strict=True)
        ]
        return list(await asyncio.gather(*works))

    return run(all_of_them())


def shared(response: Response) -> bool:
    return response.headers["x-cache"] == "shared"


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_equal_misses_at_the_same_time_cause_one_model_call(first: bool, second: bool) -> None:
    edge = Edge.with_store()
    edge.upstream.usual = SLOW
    leader, follower = together(
        edge, (0, chat(stream=first)), (100, chat(stream=second)), key=make_key()
    )
    assert 1 == len(edge.upstream.calls)
    assert (False, True) == (shared(leader), shared(follower))
    for response, streamed in ((leader, first), (follower, second)):
        assert 200 == response.status
        if streamed:
            assert "Hello there" == response.text()
            assert response.body.endswith(DONE)
        else:
            assert "Hello there" == response.json()["choices"][0]["message"]["content"]
    assert follower.log is not None
    assert 0 == follower.log["trips"]["far"]
    assert {"input": 5, "output": 2} == follower.log["tokens"]
    assert follower.log["engine"] is None


def test_many_equal_misses_cause_one_model_call() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = SLOW
    responses = together(edge, *[(10.0 * n, chat(stream=n % 2 == 0)) for n in range(20)])
    assert 1 == len(edge.upstream.calls)
    assert 19 == sum(map(shared, responses))
    assert {200} == {response.status for response in responses}


def test_requests_that_differ_do_not_wait_for_each_other() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = SLOW
    together(edge, (0, chat("one")), (50, chat("two")), (60, chat("one", temperature=1)))
    assert 3 == len(edge.upstream.calls)


def test_a_follower_sees_the_live_stream_and_does_not_wait_for_its_end() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(5_000), *EVENTS[2:]])
    _, follower = together(edge, (0, chat(stream=True)), (100, chat(stream=True)))
    arrived = [at_ms for at_ms, data in follower.sink.written if b"Hello" in data]
    assert arrived[0] < 5_000 + 1_000
    assert [True] == [at_ms > 10_000 for at_ms, data in follower.sink.written if b"there" in data]


def test_what_is_forwarded_to_a_follower_comes_soon_after_it_came_to_the_leader() -> None:
    edge = Edge.with_store()
    parts = [chr(ord("a") + n) for n in range(16)]
    pieces: list[Piece] = []
    for event in stream(*parts):
        pieces += [Wait(200), event]
    edge.upstream.usual = Scripted(pieces)
    leader, follower = together(edge, (0, chat(stream=True)), (700, chat(stream=True)))
    late = [
        follower_ms - leader_ms
        for part in parts[6:]
        for leader_ms, data in leader.sink.written
        for follower_ms, copy in follower.sink.written
        if f'"{part}"'.encode() in data and f'"{part}"'.encode() in copy
    ]
    assert 10 == len(late)
    assert max(late) <= flight.TICK_FOLLOWED_MS + flight.POLL_MS + 1


def test_a_request_that_comes_after_the_end_is_a_hit_and_follows_nobody() -> None:
    edge = Edge.with_store()
    responses = together(edge, (0, chat()), (3_000, chat()))
    assert ["miss", "hit"] == [response.headers["x-cache"] for response in responses]


def test_a_leader_that_fails_is_followed_by_a_waiter_that_asks_itself() -> None:
    edge = Edge.with_store()
    edge.upstream.enqueue(Scripted([b""], status=500, head_ms=300), Scripted(EVENTS))
    leader, follower = together(edge, (0, chat()), (100, chat()))
    assert (502, 200) == (leader.status, follower.status)
    assert "miss" == follower.headers["x-cache"]
    assert 2 == len(edge.upstream.calls)


def test_a_leader_whose_answer_breaks_off_breaks_off_for_its_followers_without_an_end() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(1_000), UpstreamBroke("away")])
    leader, follower = together(edge, (0, chat(stream=True)), (100, chat(stream=True)))
    for response in (leader, follower):
        assert b"[DONE]" not in response.body
        assert "upstream_broke" == json.loads(response.payloads()[-1])["error"]["code"]


async def dead_leader(edge: Edge) -> None:
    """Let a request win the lead, and let the host drop its instance then."""
    edge.upstream.enqueue(Scripted([Wait()]))
    dying = asyncio.ensure_future(edge.ask(chat(stream=True)))
    await asyncio.sleep(0.5)
    dying.cancel()
    edge.drop()


def test_a_dead_leader_is_taken_over_when_its_lease_has_expired() -> None:
    edge = Edge.with_store(lease_ms="2000")

    async def scene() -> tuple[Response, float]:
        await dead_leader(edge)
        before_ms = edge.clock.now_ms()
        response = await edge.beside().ask(chat())
        return response, edge.clock.now_ms() - before_ms

    response, waited_ms = run(scene())
    assert (200, "miss") == (response.status, response.headers["x-cache"])
    assert waited_ms <= 2_000 + 2 * flight.POLL_MS
    assert 2 == len(edge.upstream.calls)
    assert response.log is not None
    assert response.log["stages"]["follow"] == pytest.approx(waited_ms, abs=1)


def test_of_many_waiters_one_takes_over() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = SLOW

    async def scene() -> list[Response]:
        await dead_leader(edge)
        works = [later(10.0 * n, edge.beside().ask(chat())) for n in range(5)]
        return list(await asyncio.gather(*works))

    responses = run(scene())
    assert 2 == len(edge.upstream.calls)
    assert ["miss", *["shared"] * 4] == sorted(r.headers["x-cache"] for r in responses)


def test_a_waiter_asks_itself_after_its_bound() -> None:
    edge = Edge.with_store(follow_ms="400")
    edge.upstream.enqueue(Scripted(EVENTS, head_ms=5_000), Scripted(EVENTS))
    _, follower = together(edge, (0, chat()), (100, chat()))
    assert follower.log is not None
    assert ("miss", 1) == (follower.headers["x-cache"], follower.log["trips"]["far"])
    assert 400 <= follower.log["stages"]["follow"] <= 400 + 2 * flight.POLL_MS


def test_a_bound_of_zero_follows_nobody() -> None:
    edge = Edge.with_store(follow_ms="0")
    edge.upstream.usual = SLOW
    together(edge, (0, chat()), (100, chat()))
    assert 2 == len(edge.upstream.calls)


def test_no_cache_and_no_store_follow_nobody_and_are_followed_by_nobody() -> None:
    for header in ("no-store", "no-cache"):
        edge = Edge.with_store()
        edge.upstream.usual = SLOW
        together(edge, (0, chat()), (100, chat()), headers={"cache-control": header})
        assert 2 == len(edge.upstream.calls)


# When the clients leave.


def test_a_leader_whose_client_left_goes_on_for_its_follower() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = SLOW

    async def scene() -> list[Response]:
        gone = RecordingSink(edge.clock, leave_after=2)
        leading = edge.ask(chat(stream=True), gone)
        following = later(100, edge.beside().ask(chat(stream=True)))
        return list(await asyncio.gather(leading, following))

    leader, follower = run(scene())
    assert 1 == len(edge.upstream.calls)
    assert "Hello there" == follower.text()
    assert b"[DONE]" not in leader.body
    assert "hit" == run(edge.ask(chat())).headers["x-cache"]


def test_the_model_call_ends_within_a_second_when_nobody_waits_any_more() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(400), EVENTS[2], Wait()])

    async def scene() -> float:
        sinks = [RecordingSink(edge.clock, leave_after=1) for _ in range(3)]
        machines = [edge, edge.beside(), edge.beside()]
        asking = asyncio.gather(
            *(
                later(100.0 * n, machine.ask(chat(stream=True), sink))
                for n, (machine, sink) in enumerate(zip(machines, sinks, strict=True))
            )
        )
        await asyncio.sleep(0.8)
        assert all(sink.gone for sink in sinks)
        left_ms = edge.clock.now_ms()
        while not edge.upstream.sources[0].closed:
            await asyncio.sleep(0.01)
            assert edge.clock.now_ms() - left_ms <= 1_000
        await asking
        return edge.clock.now_ms()

    run(scene())
    assert 1 == len(edge.upstream.calls)


class SlowSink(RecordingSink):
    """A client that takes its time over one write."""

    async def write(self, data: bytes) -> bool:
        if len(self.written) == 1:
            await asyncio.sleep(3)
        return await super().write(data)


def test_a_follower_whose_client_reads_slowly_loses_nothing() -> None:
    """Its mark expires while it is held up, and the leader may end meanwhile."""
    edge = Edge.with_store()
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(600), *EVENTS[2:]])

    async def scene() -> list[Response]:
        leading = edge.ask(chat(stream=True))
        following = later(100, edge.beside().ask(chat(stream=True), SlowSink(edge.clock)))
        return list(await asyncio.gather(leading, following))

    _, follower = run(scene())
    assert shared(follower)
    assert "Hello there" == follower.text()
    assert follower.body.endswith(DONE)


def test_who_follows_after_a_pause_begins_at_the_beginning() -> None:
    """What was published for an earlier follower may have expired by then."""
    edge = Edge.with_store()
    pause_ms = flight.LIVE_TTL_MS + 10_000
    edge.upstream.usual = Scripted(
        [*EVENTS[:2], Wait(pause_ms), EVENTS[2], Wait(2_000), *EVENTS[3:]]
    )

    async def scene() -> Response:
        leading = asyncio.ensure_future(edge.ask(chat(stream=True)))
        gone = RecordingSink(edge.clock, leave_after=1)
        await later(100, edge.beside().ask(chat(stream=True), gone))
        await asyncio.sleep((pause_ms + 500) / 1000)
        follower = await edge.beside().ask(chat(stream=True))
        await leading
        return follower

    follower = run(scene())
    assert shared(follower)
    assert "Hello there" == follower.text()


# Size.


@pytest.mark.parametrize("size", [SEGMENT_BYTES - 200, SEGMENT_BYTES, 10 * SEGMENT_BYTES + 7])
def test_an_answer_of_any_size_is_followed_and_no_value_is_large(size: int) -> None:
    edge = Edge.with_store(cache_max_bytes="1000")
    assert edge.store is not None
    long = stream("x" * size, "end")
    edge.upstream.usual = Scripted([*long[:1], Wait(500), long[1], Wait(500), *long[2:]])
    _, follower = together(edge, (0, chat(stream=True)), (100, chat(stream=True)))
    assert shared(follower)
    assert "x" * size + "end" == follower.text()
    for batch in edge.store.batches:
        for operation in batch:
            if isinstance(operation, Put) and "live" in operation.key:
                assert len(operation.value) <= SEGMENT_BYTES


async def everything(live: Live) -> bytes:
    """What a follower reads until the leader is gone."""
    read = b""
    with contextlib.suppress(UpstreamBroke):
        while True:
            read += await live.read()
    return read


@given(
    st.lists(st.binary(max_size=3 * SEGMENT_BYTES), max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
@settings(max_examples=40)
def test_followers_read_exactly_what_the_leader_saw(
    pieces: list[bytes], failing: list[bool]
) -> None:
    """Whatever its pieces, and though the store fails now and then."""
    clock = VirtualClock()
    edge = Edge(clock, make_settings(lease_ms="60000"), MemoryStore(clock))

    async def scene() -> bytes:
        assert edge.store is not None
        x = edge.exchange(chat())
        edge.store.put(flight.lease_key("n"), b"token")
        edge.store.put(flight.waiting_key("n"), b"1")
        lead = Lead(x, "n", b"token")
        await lead.tick()
        for piece, fails in zip(pieces, failing, strict=False):
            lead.saw(piece)
            edge.store.down = fails
            await lead.tick()
            edge.store.down = False
            clock.advance(1_100)
            edge.store.put(flight.lease_key("n"), b"token")
            edge.store.put(flight.waiting_key("n"), b"1")
        await lead.finish(None)
        return await everything(Live(edge.beside().exchange(chat()), "n", b"token"))

    assert b"".join(pieces) == run(scene())


# The store fails.


def test_a_store_that_fails_for_a_moment_ends_nobodys_answer() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(3_000), *EVENTS[2:]])

    async def fail() -> Response:
        assert edge.store is not None
        await asyncio.sleep(0.6)
        edge.store.down = True
        await asyncio.sleep(0.3)
        edge.store.down = False
        return Response(0, {}, b"", RecordingSink(edge.clock), None)

    async def scene() -> list[Response]:
        leading = edge.ask(chat(stream=True))
        following = later(100, edge.beside().ask(chat(stream=True)))
        return list(await asyncio.gather(leading, following, fail()))

    leader, follower, _ = run(scene())
    assert ("Hello there", "Hello there") == (leader.text(), follower.text())
    assert follower.body.endswith(DONE)


@pytest.mark.parametrize("at_ms", [50, 150, 600])
def test_a_store_that_stays_away_delays_a_follower_by_no_more_than_the_lease(at_ms: int) -> None:
    """Who has got nothing yet asks itself; who has is told that the answer broke off."""
    edge = Edge.with_store(lease_ms="1000")
    edge.upstream.usual = Scripted([*EVENTS[:2], Wait(9_000), *EVENTS[2:]])

    async def fail() -> None:
        await asyncio.sleep(at_ms / 1000)
        assert edge.store is not None
        edge.store.down = True

    async def scene() -> tuple[Response, Response]:
        failing = asyncio.ensure_future(fail())
        leading = asyncio.ensure_future(edge.ask(chat(stream=True)))
        await asyncio.sleep(0.1)
        following = asyncio.ensure_future(edge.beside().ask(chat(stream=True)))
        await failing
        return await leading, await following

    leader, follower = run(scene())
    assert "Hello there" == leader.text()
    if shared(follower):
        last_ms, last = follower.sink.written[-1]
        assert b"upstream_broke" in last
        assert last_ms - 5_000 - at_ms < 1_000 + 1_000 + 100
    else:
        assert "Hello there" == follower.text()


def test_the_store_that_is_down_from_the_start_lets_each_ask_for_itself() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.down = True
    edge.upstream.usual = SLOW
    responses = together(edge, (0, chat()), (100, chat()))
    assert 2 == len(edge.upstream.calls)
    assert {200} == {response.status for response in responses}


# What is left behind.


def test_a_look_up_is_one_batch_that_also_claims_the_lead() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    run(edge.ask(chat()))
    first = edge.store.batches[0]
    assert [Get, Get, Claim] == [type(operation) for operation in first]
    assert [("revoked", "answer", "lease")] == [tuple(op.key.split(":")[2] for op in first)]


def test_after_the_end_only_the_answer_is_left() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    run(edge.ask(chat()))
    assert ["answer"] == [name.split(":")[2] for name in edge.store.names()]


def test_everything_that_is_written_expires_by_itself() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.upstream.usual = SLOW
    together(edge, (0, chat(stream=True)), (100, chat(stream=True)))
    edge.clock.advance(3_600_000 + 1)
    assert [] == edge.store.names()


def test_without_followers_nothing_is_published() -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.upstream.usual = SLOW
    run(edge.ask(chat(stream=True)))
    keys = {operation.key.split(":")[2] for batch in edge.store.batches for operation in batch}
    assert {"revoked", "answer", "lease", "waiting"} == keys
