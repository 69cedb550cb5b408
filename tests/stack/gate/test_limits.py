"""Limits of a key over two edges: exactly as many as it has, and true words about the rest."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest

from edge_frontend.limits import Limits
from fakes.script import Script
from stack.caller import CHAT, Caller
from stack.calls import Calls
from stack.edges import Edge
from stack.gates import GateRedis
from stack.streams import leaver, sessions
from stack.whole import Whole


def limited(caller: Caller, **limits: int) -> Caller:
    """The same caller with limits in its key."""
    return replace(caller, limits=Limits(**limits))


def body(caller: Caller, text: str = "one two", **fields: object) -> dict[str, object]:
    """A request that no cache answers: every one of these comes to the gate."""
    return {
        key: value for key, value in caller.body(text, **fields).items() if key != "temperature"
    }


async def burst(
    edges: list[Edge], caller: Caller, count: int, **fields: object
) -> list[httpx.Response]:
    """So many requests at once, over the edges in turn."""
    async with sessions() as session:
        return await asyncio.gather(
            *(
                session.post(
                    edges[i % len(edges)].url + CHAT,
                    json=body(caller, f"request {i}", **fields),
                    headers=caller.headers(),
                )
                for i in range(count)
            )
        )


def statuses(answers: list[httpx.Response]) -> dict[int, int]:
    found = [answer.status_code for answer in answers]
    return {status: found.count(status) for status in set(found)}


@pytest.mark.fault(7)
class TestBurst:
    async def test_sixty_at_once_over_two_edges_are_exactly_ten_a_window(
        self, first: Edge, second: Edge, caller: Caller, calls: Calls
    ) -> None:
        who = limited(caller, rpm=10)
        answers = await burst([first, second], who, 60)
        assert {200: 10, 429: 50} == statuses(answers)
        assert 10 == len(calls.seen)

    async def test_it_holds_across_the_edge_of_a_window(
        self, whole: Whole, first: Edge, second: Edge, caller: Caller, calls: Calls
    ) -> None:
        """The window slides: what was admitted 50 s ago counts, what was 61 s ago does not."""
        who = limited(caller, rpm=10)
        assert {200: 6} == statuses(await burst([first, second], who, 6))
        age(whole.redis, who, 50)
        assert {200: 4, 429: 26} == statuses(await burst([first, second], who, 30))
        age(whole.redis, who, 11)  # the six are 61 s old now, the four are 11 s
        assert {200: 6, 429: 24} == statuses(await burst([first, second], who, 30))
        assert 16 == len(calls.seen)

    async def test_one_key_takes_nothing_from_another(
        self, first: Edge, second: Edge, caller: Caller
    ) -> None:
        one, two = limited(caller, rpm=5), limited(caller.other(), rpm=5)
        answers = await asyncio.gather(
            burst([first, second], one, 20), burst([second, first], two, 20)
        )
        assert [{200: 5, 429: 15}] * 2 == [statuses(found) for found in answers]

    async def test_no_more_run_at_once_than_the_key_may(
        self, first: Edge, second: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(Script(chunks=5, gap_ms=100))
        who = limited(caller, par=3)
        answers = await burst([first, second], who, 12, stream=True)
        assert {200: 3, 429: 9} == statuses(answers)
        # All slots are free again.
        assert {200: 3} == statuses(await burst([first, second], who, 3))

    def test_a_stream_whose_client_left_frees_its_slot(
        self, first: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(Script(chunks=200, gap_ms=50))
        who = limited(caller, par=1)
        with leaver(first, who, body(who, stream=True)) as client:
            client.read_until(2, b'"content":"')
            assert 429 == who.post(first, body(who, "next")).status_code
            client.leave("rst")
        calls.wait_closed(0)
        calls.answer(Script())
        deadline = time.monotonic() + 2
        while (answer := who.post(first, body(who, "again"))).status_code == 429:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert 200 == answer.status_code


def age(redis: GateRedis, caller: Caller, seconds: float) -> None:
    """Make what a key was admitted for older, as if that time had passed."""
    name = f"nf:gate:1:log:{caller.tenant}/{caller.key_id}"
    with redis.client() as client:
        log: Any = client  # the client's types know no answer with scores
        for member, at_us in log.zrange(name, 0, -1, withscores=True):
            log.zadd(name, {member: at_us - seconds * 1_000_000})


@pytest.mark.fault(18)
class TestRetryAfter:
    def test_it_is_when_the_oldest_leaves_the_window(
        self, whole: Whole, first: Edge, caller: Caller, calls: Calls
    ) -> None:
        who = limited(caller, rpm=2)
        for number in (1, 2):
            answer = who.post(first, body(who, f"request {number}"))
            assert (200, "2", str(2 - number)) == (
                answer.status_code,
                answer.headers["x-ratelimit-limit-requests"],
                answer.headers["x-ratelimit-remaining-requests"],
            )
        age(whole.redis, who, 45)
        refused = who.post(first, body(who, "too many"))
        assert (429, "rate_limit_exceeded") == (
            refused.status_code,
            refused.json()["error"]["code"],
        )
        assert 13 <= int(refused.headers["retry-after"]) <= 16
        age(whole.redis, who, int(refused.headers["retry-after"]))
        assert 200 == who.post(first, body(who, "in time")).status_code

    def test_a_refusal_is_never_cached(self, whole: Whole, first: Edge, caller: Caller) -> None:
        who = limited(caller, rpm=1)
        assert 200 == who.post(first, body(who, "first")).status_code
        for _ in range(2):
            refused = who.post(first, who.body("cacheable"))
            assert (429, "no-store") == (refused.status_code, refused.headers["cache-control"])
        age(whole.redis, who, 61)
        answer = who.post(first, who.body("cacheable"))
        assert (200, "miss") == (answer.status_code, answer.headers["x-cache"])

    def test_the_edges_own_limit_of_hits_says_when_too(self, first: Edge, caller: Caller) -> None:
        who = limited(caller, rpm=3)
        answers = [who.post(first, who.body("the same")) for _ in range(8)]
        assert "miss" == answers[0].headers["x-cache"]
        assert {200, 429} == {answer.status_code for answer in answers}
        for refused in answers:
            if refused.status_code == 429:
                assert "rate_limit_exceeded" == refused.json()["error"]["code"]
                assert 1 <= int(refused.headers["retry-after"]) <= 60


@pytest.mark.fault(13)
def test_a_forwarded_address_is_no_way_around_a_limit(
    first: Edge, second: Edge, caller: Caller, calls: Calls
) -> None:
    who = limited(caller, rpm=3)
    found = []
    for number in range(12):
        address = f"203.0.113.{number}"
        answer = who.post(
            (first, second)[number % 2],
            body(who, f"request {number}"),
            x_forwarded_for=f"{address}, 198.51.100.{number}",
            x_real_ip=address,
            forwarded=f"for={address}",
            true_client_ip=address,
        )
        found.append(answer.status_code)
    assert [200] * 3 + [429] * 9 == found
    seen = {name.lower() for record in calls.seen for name, _ in record.headers}
    assert not {"x-forwarded-for", "x-real-ip", "forwarded", "true-client-ip"} & seen


@pytest.mark.fault(10)
class TestWithoutItsRedis:
    def test_the_gate_goes_on_with_limits_of_its_own(
        self, caller: Caller, whole: Whole, first: Edge
    ) -> None:
        who = limited(caller, rpm=4)
        whole.redis.kill()
        try:
            began = time.monotonic()
            found = [who.post(first, body(who, f"request {n}")).status_code for n in range(7)]
            assert time.monotonic() - began < 5
        finally:
            whole.redis.start()
        assert [200] * 4 + [429] * 3 == found
        deadline = time.monotonic() + 5
        while who.key_id not in whole.redis.usage():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert 4 == whole.redis.usage()[who.key_id].requests
