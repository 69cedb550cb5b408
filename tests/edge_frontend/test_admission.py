"""What the gate said of the model server turns requests away here, while it is new."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from edge_frontend import admission
from edge_frontend.admission import FRESH_MS, Load
from edge_frontend.ports import Put
from fakes.edge import Edge, Response, Scripted, chat, make_key, run, stream

SECRET = "g" * 32
FULL = "in_flight=24;capacity=24;seats=16;queued=8;drain=4.0;speed=14.2"
BATCH, NORMAL, INTERACTIVE = (
    make_key(key_id=name, priority=number)
    for number, name in enumerate(("batch", "normal", "interactive"))
)


def with_load(load: str, *events: bytes, **scripted: Any) -> Scripted:
    head = (("content-type", b"text/event-stream"), ("x-nearfar-load", load.encode()))
    return Scripted(events or stream("x"), headers=head, **scripted)


def an_edge(load: str = FULL, **settings: Any) -> Edge:
    """An edge whose model server said this of its load with each answer."""
    edge = Edge.with_store(gate_secret=SECRET, **settings)
    edge.upstream.usual = with_load(load)
    return edge


def ask(edge: Edge, text: str = "another", key: str = NORMAL, **fields: Any) -> Response:
    return run(edge.ask(chat(text, **fields), key=key))


def told(load: str, key: str = NORMAL, after_ms: float = 0.0) -> int:
    """The status of a request that comes after an answer with this load."""
    edge = an_edge(load)
    assert 200 == ask(edge, "first", INTERACTIVE).status
    edge.clock.advance(after_ms)
    return ask(edge, key=key).status


@pytest.mark.parametrize(
    ("in_flight", "statuses"),
    [
        (0, (200, 200, 200)),
        (15, (200, 200, 200)),
        (16, (503, 200, 200)),
        (19, (503, 200, 200)),
        (20, (503, 503, 200)),
        (23, (503, 503, 200)),
        (24, (503, 503, 503)),
        (99, (503, 503, 503)),
    ],
)
def test_batch_gets_the_seats_normal_half_the_queue_and_interactive_all(
    in_flight: int, statuses: tuple[int, int, int]
) -> None:
    load = f"in_flight={in_flight};capacity=24;seats=16"
    assert statuses == tuple(told(load, key) for key in (BATCH, NORMAL, INTERACTIVE))


def test_who_is_turned_away_does_not_travel_and_is_told_when_to_come_back() -> None:
    edge = an_edge()
    ask(edge, "first")
    refused = ask(edge)
    assert (503, "upstream_busy") == (refused.status, refused.error["code"])
    # 24 in flight, 20 allowed: five have to leave, four a second.
    assert "2" == refused.headers["retry-after"]
    assert 1 == len(edge.upstream.calls)
    assert refused.log is not None
    assert ("upstream_busy", 0) == (refused.log["error"], refused.log["trips"]["far"])


def test_a_hit_is_served_however_full_the_model_server_is() -> None:
    edge = an_edge()
    ask(edge, "first")
    assert "hit" == ask(edge, "first").headers["x-cache"]


def test_a_hint_is_worth_nothing_after_two_seconds() -> None:
    stuck = "in_flight=24;capacity=24;seats=16"
    assert (503, 200) == (told(stuck, after_ms=FRESH_MS - 1), told(stuck, after_ms=FRESH_MS + 1))


def test_what_drained_since_the_hint_is_taken_off() -> None:
    # 24 in flight, 20 allowed, 4 leave a second: the 25th fits when five have left.
    assert (503, 200) == (told(FULL, after_ms=1_000), told(FULL, after_ms=1_251))


def test_what_was_sent_since_the_hint_is_added() -> None:
    edge = an_edge("in_flight=18;capacity=24;seats=16")

    async def burst() -> list[int]:
        await edge.ask(chat("first"), key=NORMAL)
        edge.upstream.usual = replace(edge.upstream.usual, head_ms=500)  # type: ignore[type-var]
        asked = [edge.ask(chat(f"{number}"), key=NORMAL) for number in range(6)]
        return [response.status for response in await asyncio.gather(*asked)]

    assert [200, 200, 503, 503, 503, 503] == run(burst())


def test_a_new_hint_counts_anew() -> None:
    edge = an_edge()
    ask(edge, "first")
    edge.clock.advance(FRESH_MS + 1)
    edge.upstream.usual = with_load("in_flight=1;capacity=24;seats=16")
    statuses = [ask(edge, f"{number}").status for number in range(40)]
    assert [200] * 40 == statuses


def test_other_instances_know_it_through_the_near_store() -> None:
    edge = an_edge()
    ask(edge, "first")
    assert 503 == ask(edge.beside()).status
    edge.clock.advance(FRESH_MS + 1)
    assert 200 == ask(edge.beside()).status


def test_a_shared_hint_is_as_old_as_it_was_when_it_was_shared() -> None:
    edge = an_edge("in_flight=24;capacity=24;seats=16")
    ask(edge, "first")
    edge.clock.advance(FRESH_MS - 100)
    late = edge.beside()
    assert 503 == ask(late).status
    edge.clock.advance(200)
    assert 200 == ask(late).status


def test_an_instance_shares_now_and_then_and_not_with_every_answer() -> None:
    edge = an_edge("in_flight=1;capacity=24;seats=16")

    def shared() -> int:
        assert edge.store is not None
        operations = [op for batch in edge.store.batches for op in batch]
        return sum(isinstance(op, Put) and op.key.startswith("nf:1:load:") for op in operations)

    for number in range(5):
        ask(edge, f"{number}")
    assert 1 == shared()
    edge.clock.advance(admission.SHARE_MS)
    ask(edge, "later")
    assert 2 == shared()


def test_a_refusal_of_the_gate_is_a_hint_too() -> None:
    edge = an_edge()
    edge.upstream.enqueue(replace(with_load(FULL, b"{}"), status=503))
    assert [503, 503] == [ask(edge, "a").status, ask(edge, "b").status]
    assert 1 == len(edge.upstream.calls)


@pytest.mark.parametrize(
    "header",
    ["", "full", "in_flight=24", "in_flight=x;capacity=24", "in_flight=nan;capacity=24",
     "in_flight=24;capacity=0", "in_flight=inf;capacity=24", "in_flight=24;capacity=24;drain=nan"],
)  # fmt: skip
def test_what_is_no_load_turns_nobody_away(header: str) -> None:
    assert admission.parse(header, 0.0) is None
    assert 200 == told(header)


def test_what_others_put_into_the_store_breaks_nothing() -> None:
    for value in (b"", b"x", b"\xff", f"x {FULL}".encode(), f"9e999 {FULL}".encode()):
        edge = an_edge()
        assert edge.store is not None
        edge.store.put(admission.load_key("gpu"), value)
        edge.store.put(admission.speed_key("gpu"), value)
        assert 200 == ask(edge).status


def test_without_a_gate_no_header_is_believed() -> None:
    edge = Edge.with_store()
    edge.upstream.usual = with_load(FULL)
    assert [200, 200] == [ask(edge, "a").status, ask(edge, "b").status]


def test_a_load_with_the_least_of_fields_has_all_its_places_as_seats() -> None:
    assert Load(3.0, 8.0, 8.0, None, None, 5.0) == admission.parse("in_flight=3;capacity=8", 5.0)


@pytest.mark.parametrize(
    ("above", "drain", "seconds"),
    [(1, 4.0, 1), (5, 4.0, 2), (8, 4.0, 2), (9, None, 1), (1e6, 1, 60)],
)
def test_the_wait_follows_from_the_rate(above: float, drain: float | None, seconds: int) -> None:
    assert seconds == admission.retry_after_s(above, drain)


# The host's deadline.


def bounded(asked: int, **request: Any) -> tuple[Response, int]:
    """The second of two answers and the tokens it was asked with, at 10 tokens a second."""
    edge = an_edge("in_flight=1;capacity=24;seats=16;speed=10.0", deadline_ms="30000")
    ask(edge, "first")
    response = ask(edge, max_tokens=asked, **request)
    return response, edge.upstream.sent()["max_tokens"]


def test_max_tokens_is_bounded_by_what_the_deadline_leaves_time_for() -> None:
    # 30 s less the second for first content and the last word, at 10 tokens a second.
    response, sent = bounded(1_000)
    assert 290 == sent
    assert "290" == response.headers["x-nearfar-max-tokens"]


def test_what_can_be_done_in_time_is_left_as_it_is_and_not_mentioned() -> None:
    response, sent = bounded(290)
    assert 290 == sent
    assert "x-nearfar-max-tokens" not in response.headers


def test_a_bounded_answer_is_not_kept_since_another_request_may_have_more_time() -> None:
    edge = an_edge("in_flight=1;capacity=24;seats=16;speed=10.0", deadline_ms="30000")
    ask(edge, "first")
    seen = [ask(edge, "long", max_tokens=1_000).headers["x-cache"] for _ in range(2)]
    assert ["miss", "miss"] == seen
    seen = [ask(edge, "short", max_tokens=100).headers["x-cache"] for _ in range(2)]
    assert ["miss", "hit"] == seen


def test_the_name_of_the_field_that_the_client_used_stays() -> None:
    edge = an_edge("in_flight=1;capacity=24;seats=16;speed=10.0", deadline_ms="30000")
    ask(edge, "first")
    ask(edge, max_completion_tokens=1_000)
    assert 290 == edge.upstream.sent()["max_completion_tokens"]
    assert "max_tokens" not in edge.upstream.sent()


def test_a_speed_that_another_instance_measured_bounds_too() -> None:
    edge = an_edge("in_flight=1;capacity=24;seats=16;speed=10.0", deadline_ms="30000")
    ask(edge, "first")
    edge.clock.advance(60_000)
    other = edge.beside()
    ask(other, max_tokens=1_000)
    assert 290 == other.upstream.sent()["max_tokens"]


def test_without_a_deadline_or_a_speed_nothing_is_bounded() -> None:
    for edge in (
        an_edge(f"{FULL};speed=10.0"),
        an_edge("in_flight=1;capacity=9", deadline_ms="30000"),
    ):
        ask(edge, "first")
        edge.clock.advance(FRESH_MS + 1)
        assert "x-nearfar-max-tokens" not in ask(edge, max_tokens=1_000).headers
        assert 1_000 == edge.upstream.sent()["max_tokens"]


def test_the_gates_other_headers_stand_beside_the_bound() -> None:
    edge = an_edge("in_flight=1;capacity=24;seats=16;speed=10.0", deadline_ms="30000")
    ask(edge, "first")
    answer = edge.upstream.usual
    assert isinstance(answer, Scripted)
    left = (("x-ratelimit-remaining-requests", b"3"),)
    edge.upstream.usual = replace(answer, headers=(*answer.headers, *left))
    response = ask(edge, max_tokens=1_000)
    assert ("290", "3") == (
        response.headers["x-nearfar-max-tokens"],
        response.headers["x-ratelimit-remaining-requests"],
    )
