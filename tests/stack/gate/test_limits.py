"""Limits of a key over two edges: exactly as many as it has, and true words about the rest."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
import redis

from edge_frontend.limits import Limits
from fakes.script import Script
from stack.caller import CHAT, Caller
from stack.calls import Calls
from stack.edges import Edge
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

    async def test_they_are_over_edges_that_share_no_store_too(
        self, first: Edge, apart: Edge, caller: Caller, calls: Calls
    ) -> None:
        """What goes on to the model server is counted by the gate."""
        who = limited(caller, rpm=10)
        answers = await burst([first, apart], who, 60)
        assert {200: 10, 429: 50} == statuses(answers)
        assert 10 == len(calls.seen)

    async def test_it_holds_across_the_edge_of_a_window(
        self, whole: Whole, first: Edge, second: Edge, caller: Caller, calls: Calls
    ) -> None:
        """The window slides: what was admitted 50 s ago counts, what was 61 s ago does not."""
        who = limited(caller, rpm=10)
        assert {200: 6} == statuses(await burst([first, second], who, 6))
        age(whole, who, 50)
        assert {200: 4, 429: 26} == statuses(await burst([first, second], who, 30))
        age(whole, who, 11)  # the six are 61 s old now, the four are 11 s
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


@pytest.mark.fault(7)
class TestTenant:
    async def test_all_its_keys_share_its_limits_over_all_edges(
        self, whole: Whole, caller: Caller, calls: Calls
    ) -> None:
        """Each key alone may have ten, the tenant twelve."""
        limited_edge = whole.edge(tenants=json.dumps({caller.tenant: {"rpm": 12}}))
        without_store = whole.edge(tenants=json.dumps({caller.tenant: {"rpm": 12}}), store="none")
        keys = [limited(caller.other(), rpm=10) for _ in range(3)]
        found = await asyncio.gather(*(burst([limited_edge, without_store], k, 20) for k in keys))
        each = [statuses(answers).get(200, 0) for answers in found]
        assert 12 == sum(each) == len(calls.seen)
        assert max(each) <= 10
        stranger = replace(keys[0], tenant=f"{caller.tenant}-2")
        assert {200: 3} == statuses(await burst([limited_edge, without_store], stranger, 3))

    async def test_its_slots_and_its_month_too(
        self, whole: Whole, caller: Caller, calls: Calls
    ) -> None:
        edge = whole.edge(tenants=json.dumps({caller.tenant: {"par": 3, "month": 2_000}}))
        calls.answer(Script(chunks=5, gap_ms=100))
        keys = [caller.other(), caller.other()]
        found = await asyncio.gather(*(burst([edge], key, 6, stream=True) for key in keys))
        assert 3 == sum(statuses(answers).get(200, 0) for answers in found)
        refused = keys[0].post(edge, body(keys[0], "long", max_tokens=2_000))
        assert (429, "monthly_budget_exceeded") == (
            refused.status_code,
            refused.json()["error"]["code"],
        )
        assert 200 == keys[1].post(edge, body(keys[1], "short", max_tokens=20)).status_code


class TestOneLimit:
    def test_hits_and_misses_are_one_limit_over_the_edges_of_a_store(
        self, first: Edge, second: Edge, caller: Caller, calls: Calls
    ) -> None:
        who = limited(caller, rpm=6)
        found = []
        for number in range(9):
            text = "the same" if number % 2 else f"another {number}"
            answer = who.post((first, second)[number % 2], who.body(text))
            found.append((answer.status_code, answer.headers.get("x-cache")))
        assert [200] * 6 + [429] * 3 == [status for status, _ in found]
        assert ["miss", "miss", "miss", "hit", "miss", "hit"] == [cache for _, cache in found[:6]]

    def test_a_hit_says_what_is_left(self, first: Edge, caller: Caller) -> None:
        who = limited(caller, rpm=5)
        answers = [who.post(first, who.body("the same")) for _ in range(3)]
        names = ("x-cache", "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests")
        told = [tuple(answer.headers[name] for name in names) for answer in answers]
        assert [("miss", "5", "4"), ("hit", "5", "3"), ("hit", "5", "2")] == told

    def test_what_the_gate_refuses_is_given_back(
        self, first: Edge, caller: Caller, calls: Calls
    ) -> None:
        who = limited(caller, rpm=3, month=30)
        for number in range(4):
            refused = who.post(first, body(who, f"long {number}", max_tokens=1_000))
            assert "monthly_budget_exceeded" == refused.json()["error"]["code"]
        # The edge gives back after its reply has gone.
        deadline = time.monotonic() + 2
        while (last := who.post(first, body(who, "short", max_tokens=1))).status_code == 429:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert 200 == last.status_code


def age(whole: Whole, caller: Caller, seconds: float) -> None:
    """Make what a key and its tenant were admitted for older, as if that time had passed."""
    for server, kind in ((whole.redis, "gate:1:log"), (whole.near, "1:rate")):
        with redis.Redis.from_url(server.url, socket_timeout=5) as client:
            log: Any = client  # the client's types know no answer with scores
            for owner in (caller.tenant, f"{caller.tenant}/{caller.key_id}"):
                name = f"nf:{kind}:{owner}"
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
        age(whole, who, 45)
        refused = who.post(first, body(who, "too many"))
        assert (429, "rate_limit_exceeded") == (
            refused.status_code,
            refused.json()["error"]["code"],
        )
        assert 13 <= int(refused.headers["retry-after"]) <= 16
        age(whole, who, int(refused.headers["retry-after"]))
        assert 200 == who.post(first, body(who, "in time")).status_code

    def test_a_refusal_is_never_cached(self, whole: Whole, first: Edge, caller: Caller) -> None:
        who = limited(caller, rpm=1)
        assert 200 == who.post(first, body(who, "first")).status_code
        for _ in range(2):
            refused = who.post(first, who.body("cacheable"))
            assert (429, "no-store") == (refused.status_code, refused.headers["cache-control"])
        age(whole, who, 61)
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
