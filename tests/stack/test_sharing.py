"""Concurrent equal misses: one call of the upstream, whose answer everybody follows live."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import httpx
import pytest

from fakes.script import Script
from fakes.upstream import UpstreamThread
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge, Edges
from stack.stores import RedisServer
from stack.streams import Taken, sessions, take

WITHIN_S = 1.0
SLOW = Script(content="answer", chunks=20, first_content_ms=300, gap_ms=50)
TEXT = " ".join(["answer"] * 20)


async def leader_and(
    session: httpx.AsyncClient, edge: Edge, caller: Caller, calls: Calls, *, stream: bool = True
) -> asyncio.Task[Taken]:
    """Start a request and wait until its call has reached the upstream."""
    task = asyncio.create_task(take(session, edge, caller, caller.body(stream=stream)))
    await asyncio.to_thread(calls.wait)
    return task


async def followers(
    session: httpx.AsyncClient, edge: Edge, caller: Caller, store: RedisServer, count: int
) -> list[asyncio.Task[Taken]]:
    """Start requests that follow, and wait until the store knows that somebody waits."""
    before = store.keys("nf:1:waiting:*")
    body = caller.body(stream=True)
    tasks = [asyncio.create_task(take(session, edge, caller, body)) for _ in range(count)]
    deadline = time.monotonic() + 5
    while not store.keys("nf:1:waiting:*") - before:
        assert time.monotonic() < deadline, "nobody follows"
        await asyncio.sleep(0.01)
    return tasks


async def gone(*tasks: asyncio.Task[Taken]) -> float:
    """Let these clients go away; says when."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return time.monotonic()


async def closed(calls: Calls) -> float:
    """When the upstream saw its connection close."""
    return await asyncio.to_thread(calls.wait_closed)


@pytest.mark.parametrize("kind", ["warm", "fresh"])
async def test_twenty_at_once_over_two_edges_cause_one_call(
    request: pytest.FixtureRequest, kind: str, other: Edge, caller: Caller, calls: Calls
) -> None:
    one: Edge = request.getfixturevalue(kind)
    calls.answer(SLOW)
    async with sessions() as session:
        body = caller.body(stream=True)
        asked = [take(session, edge, caller, body) for edge in (one, other) * 10]
        taken = await asyncio.gather(*asked)
    assert 1 == len(calls.seen)
    assert {TEXT} == {each.text for each in taken}
    assert all(each.done for each in taken)
    found = sorted(each.cache for each in taken)
    assert ["miss", *["shared"] * 19] == found
    leader_end = next(each.ended_at for each in taken if each.cache == "miss")
    for each in taken:
        assert each.first_content_at is not None
        assert each.first_content_at < leader_end - 0.2, "a follower waited for the end"


async def test_a_body_may_follow_a_stream_and_a_stream_a_body(
    edge: Edge, other: Edge, caller: Caller, calls: Calls
) -> None:
    calls.answer(SLOW)
    async with sessions() as session:
        forms = [caller.body(stream=True), caller.body()] * 4
        asked = [
            session.post(f"{each.url}/v1/chat/completions", json=body, headers=caller.headers())
            for each, body in zip((edge, other) * 4, forms, strict=True)
        ]
        answers = await asyncio.gather(*asked)
    assert 1 == len(calls.seen)
    assert [200] * 8 == [answer.status_code for answer in answers]
    bodies = [a.json() for a in answers if a.headers["content-type"] == "application/json"]
    assert [TEXT] * 4 == [body["choices"][0]["message"]["content"] for body in bodies]
    assert 1 == len({(body["id"], body["usage"]["total_tokens"]) for body in bodies})


@pytest.mark.fault(9)
async def test_another_tenant_does_not_follow(warm: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(SLOW)
    foreign = caller.other(tenant=Caller().tenant)
    async with sessions() as session:
        body = caller.body(stream=True)
        taken = await asyncio.gather(*(take(session, warm, c, body) for c in (caller, foreign)))
    assert ["miss", "miss"] == [each.cache for each in taken]
    assert 2 == len(calls.seen)


async def test_followers_get_it_whole_when_the_leaders_client_leaves(
    edge: Edge, other: Edge, caller: Caller, calls: Calls, store: RedisServer
) -> None:
    calls.answer(SLOW)
    async with sessions() as session:
        leader = await leader_and(session, edge, caller, calls)
        following = await followers(session, other, caller, store, 3)
        await asyncio.to_thread(calls.wait_chunks, 4)
        await gone(leader)
        taken = await asyncio.gather(*following)
    assert [TEXT] * 3 == [each.text for each in taken]
    assert calls.only.finished
    answer = await asyncio.to_thread(caller.post, edge, caller.body())
    assert "hit" == answer.headers["x-cache"]


@pytest.mark.parametrize("leader_first", [True, False])
async def test_the_upstream_ends_when_all_have_left(
    edge: Edge,
    other: Edge,
    caller: Caller,
    calls: Calls,
    store: RedisServer,
    *,
    leader_first: bool,
) -> None:
    calls.answer(Script(chunks=200, gap_ms=50, first_content_ms=300))
    async with sessions() as session:
        leader = await leader_and(session, edge, caller, calls)
        following = await followers(session, other, caller, store, 3)
        await asyncio.to_thread(calls.wait_chunks, 6)
        if leader_first:
            await gone(leader)
            await asyncio.sleep(0.5)
            assert calls.only.t_closed_by_peer is None
            left = await gone(*following)
        else:
            await gone(*following)
            await asyncio.sleep(0.1)
            left = await gone(leader)
        assert await closed(calls) - left < WITHIN_S
    calls.answer(Script())
    answer = await asyncio.to_thread(caller.post, edge, caller.body())
    assert ("miss", 2) == (answer.headers["x-cache"], len(calls.seen))


async def test_a_leader_goes_on_alone_when_its_followers_have_left(
    edge: Edge, other: Edge, caller: Caller, calls: Calls, store: RedisServer
) -> None:
    calls.answer(SLOW)
    async with sessions() as session:
        leader = await leader_and(session, edge, caller, calls)
        await gone(*await followers(session, other, caller, store, 2))
        taken = await leader
    assert (TEXT, True, 1) == (taken.text, taken.done, len(calls.seen))


async def test_a_follower_takes_over_from_an_edge_that_was_killed(
    own_edges: Edges,
    common: dict[str, str],
    edge: Edge,
    caller: Caller,
    calls: Calls,
    store: RedisServer,
) -> None:
    """It had received nothing yet, so its client sees a whole answer."""
    doomed = own_edges.start(common)
    calls.answer(Script(content="answer", chunks=20, first_content_ms=6000))
    async with sessions() as session:
        leader = await leader_and(session, doomed, caller, calls)
        following = await followers(session, edge, caller, store, 3)
        calls.answer(SLOW)
        doomed.kill()
        await asyncio.gather(leader, return_exceptions=True)
        taken = await asyncio.gather(*following)
    assert [(TEXT, True)] * 3 == [(each.text, each.done) for each in taken]
    assert 2 == len(calls.seen), "the takeover is one call too"


async def test_a_follower_in_the_middle_gets_an_error_when_the_leader_was_killed(
    own_edges: Edges,
    common: dict[str, str],
    edge: Edge,
    caller: Caller,
    calls: Calls,
    store: RedisServer,
) -> None:
    doomed = own_edges.start(common)
    calls.answer(Script(content="answer", chunks=100, first_content_ms=300, gap_ms=50))
    async with sessions() as session:
        leader = await leader_and(session, doomed, caller, calls)
        (follower,) = await followers(session, edge, caller, store, 1)
        await asyncio.to_thread(calls.wait_chunks, 10)
        doomed.kill()
        await asyncio.gather(leader, return_exceptions=True)
        taken = await follower
    assert "answer" in taken.text
    assert ("upstream_broke", False) == (taken.error, taken.done)


async def test_a_body_that_follows_is_whole_although_the_leader_was_killed_in_the_middle(
    own_edges: Edges,
    common: dict[str, str],
    edge: Edge,
    caller: Caller,
    calls: Calls,
    store: RedisServer,
) -> None:
    """Nothing of one body has left before it is whole, so the follower asks for itself."""
    doomed = own_edges.start(common)
    calls.answer(Script(content="answer", chunks=100, first_content_ms=300, gap_ms=50))
    async with sessions() as session:
        leader = await leader_and(session, doomed, caller, calls)
        follower = asyncio.create_task(asyncio.to_thread(caller.post, edge, caller.body()))
        await asyncio.to_thread(calls.wait_chunks, 10)
        calls.answer(SLOW)
        doomed.kill()
        await asyncio.gather(leader, return_exceptions=True)
        answer = await follower
    assert 200 == answer.status_code
    assert TEXT == answer.json()["choices"][0]["message"]["content"]
    assert 2 == len(calls.seen)


async def test_followers_learn_that_the_upstream_broke_off(
    edge: Edge, other: Edge, caller: Caller, calls: Calls, store: RedisServer
) -> None:
    calls.answer(replace(SLOW, end="rst", end_after=10))
    async with sessions() as session:
        leader = await leader_and(session, edge, caller, calls)
        following = await followers(session, other, caller, store, 3)
        taken = await asyncio.gather(leader, *following)
    assert ["upstream_broke"] * 4 == [each.error for each in taken]
    assert 1 == len(calls.seen)


async def test_waiters_ask_for_themselves_after_the_bound(
    own_edges: Edges,
    common: dict[str, str],
    caller: Caller,
    calls: Calls,
    upstream: UpstreamThread,
) -> None:
    edge = own_edges.start(common | {"NEARFAR_FOLLOW_MS": "500"})
    calls.answer(Script(content="answer", first_content_ms=2500))
    async with sessions() as session:
        leader = await leader_and(session, edge, caller, calls)
        body = caller.body(stream=True)
        began = time.monotonic()
        follower = asyncio.create_task(take(session, edge, caller, body))
        second = await asyncio.to_thread(calls.wait, 2)
        assert 0.4 < second.t_received - began < 1.5
        taken = await asyncio.gather(leader, follower)
    assert [True, True] == [each.done for each in taken]
