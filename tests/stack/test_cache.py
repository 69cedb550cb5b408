"""The answer cache: what is equal, what is kept, and for how long."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from fakes.ask import expected_text
from fakes.script import METRICS, Script
from fakes.upstream import UpstreamThread
from stack.answers import events, facts_of_stream, told
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer

USAGE = {"include_usage": True}
ANSWERS = {
    "text": (Script(), {}),
    "metrics": (Script(metrics=METRICS), {}),
    "tools": (Script(tool_calls=(("weather", '{"city": "Graz"}'), ("time", "{}"))), {}),
    "text and tools": (Script(content="let me look", tool_calls=(("f", '{"a": [1]}'),)), {}),
    "reasoning": (Script(reasoning=("first ", "then")), {}),
    "two choices": (Script(), {"n": 2}),
    "length": (Script(), {"max_tokens": 2}),
    "multibyte": (Script(content='grüße 🙂 日本語 \\u0041 "quoted" \n end'), {}),
    "empty": (Script(pieces=()), {}),
    "foreign framing": (Script(line_end="\r\n", comments=True, split_data=True, space=False), {}),
}


def ask(
    edge: Edge, caller: Caller, fields: dict[str, Any], *, streamed: bool
) -> tuple[httpx.Response, dict[str, Any]]:
    """Ask as a stream with usage or as one body; the response and its facts."""
    more: dict[str, Any] = {"stream": True, "stream_options": USAGE} if streamed else {}
    answer = caller.post(edge, caller.body(**fields, **more))
    assert answer.status_code == 200
    return answer, facts_of_stream(answer.content) if streamed else told(answer.json())


class TestEqual:
    """A hit is equal to the miss in message, finish_reason and usage."""

    @pytest.mark.parametrize("name", ANSWERS)
    @pytest.mark.parametrize("first_streamed", [False, True])
    def test_a_hit_is_equal_to_its_miss_in_either_form(
        self, edge: Edge, caller: Caller, calls: Calls, name: str, *, first_streamed: bool
    ) -> None:
        script, fields = ANSWERS[name]
        calls.answer(script)
        miss, facts = ask(edge, caller, fields, streamed=first_streamed)
        assert "miss" == miss.headers["x-cache"]
        assert facts["usage"]["completion_tokens"] >= 0
        for streamed in (False, True):
            hit, again = ask(edge, caller, fields, streamed=streamed)
            assert "hit" == hit.headers["x-cache"]
            assert facts == again
        assert 1 == len(calls.seen)

    def test_the_text_is_the_one_that_the_upstream_gave(self, warm: Edge, caller: Caller) -> None:
        body = caller.body("some words")
        for expected in ("miss", "hit"):
            answer = caller.post(warm, body)
            assert expected == answer.headers["x-cache"]
            assert expected_text(body) == answer.json()["choices"][0]["message"]["content"]

    def test_a_replayed_stream_has_usage_only_when_asked(self, edge: Edge, caller: Caller) -> None:
        for _ in range(2):
            plain = events(caller.post(edge, caller.body(stream=True)).content)
            assert not [e for e in plain if e != "[DONE]" and e.get("usage")]
        asked = events(caller.post(edge, caller.body(stream=True, stream_options=USAGE)).content)
        assert [] == asked[-2]["choices"]
        assert asked[-2]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("field", ["use_beam_search", "prompt_logprobs"])
def test_an_answer_that_the_upstream_gives_in_one_body_is_kept_too(
    edge: Edge, caller: Caller, calls: Calls, field: str
) -> None:
    answers = [caller.post(edge, caller.body() | {field: 1}) for _ in range(2)]
    assert [(200, "miss"), (200, "hit")] == [(a.status_code, a.headers["x-cache"]) for a in answers]
    assert told(answers[0].json()) == told(answers[1].json())
    assert not calls.only.json.get("stream")


@pytest.mark.fault(5)
class TestKey:
    """Whatever can change the answer is part of its name."""

    @pytest.mark.parametrize(
        "field",
        [
            {"max_tokens": 9},
            {"max_completion_tokens": 9},
            {"top_p": 0.5},
            {"stop": ["x"]},
            {"n": 2},
            {"seed": 7},
            {"tool_choice": "none"},
            {"response_format": {"type": "json_object"}},
            {"logprobs": True},
            {"presence_penalty": 0.5},
            {"frequency_penalty": 0.5},
            {"top_k": 3},
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"x_new": {"a": [1]}},
        ],
        ids=lambda field: next(iter(field)),
    )
    def test_one_field_more_is_a_miss(
        self, warm: Edge, caller: Caller, calls: Calls, field: dict[str, Any]
    ) -> None:
        for count, fields in ((1, {}), (2, field)):
            answer = caller.post(warm, caller.body(**fields))
            assert ("miss", count) == (answer.headers["x-cache"], len(calls.seen))
        for fields in ({}, field):
            assert "hit" == caller.post(warm, caller.body(**fields)).headers["x-cache"]

    def test_earlier_turns_and_system_texts_are_part_of_it(
        self, warm: Edge, caller: Caller, calls: Calls
    ) -> None:
        turn = caller.body()["messages"]
        before = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        variants = [turn, [{"role": "system", "content": "short"}, *turn], [*before, *turn]]
        for messages in variants:
            body = caller.body() | {"messages": messages}
            assert "miss" == caller.post(warm, body).headers["x-cache"]
        assert len(variants) == len(calls.seen)

    def test_an_omitted_temperature_is_not_zero(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        body = caller.body()
        assert "miss" == caller.post(edge, body).headers["x-cache"]
        del body["temperature"]
        for _ in range(2):
            assert "bypass" == caller.post(edge, body).headers["x-cache"]
        assert 3 == len(calls.seen)

    def test_the_order_of_fields_is_no_part_of_it(self, warm: Edge, caller: Caller) -> None:
        body = caller.body(top_p=0.5)
        assert "miss" == caller.post(warm, body).headers["x-cache"]
        assert "hit" == caller.post(warm, dict(reversed(body.items()))).headers["x-cache"]


class TestAsked:
    def test_a_header_asks_for_what_is_not_deterministic(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        body = caller.body(temperature=0.7)
        found = [caller.post(edge, body, x_nearfar_cache="use") for _ in range(2)]
        assert ["miss", "hit"] == [each.headers["x-cache"] for each in found]
        assert "bypass" == caller.post(edge, body).headers["x-cache"]

    def test_no_store_neither_reads_nor_keeps(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        for _ in range(2):
            answer = caller.post(edge, caller.body(), cache_control="no-store")
            assert "bypass" == answer.headers["x-cache"]
        assert "miss" == caller.post(edge, caller.body()).headers["x-cache"]
        answer = caller.post(edge, caller.body(), cache_control="no-store")
        assert ("bypass", 4) == (answer.headers["x-cache"], len(calls.seen))

    def test_no_cache_asks_anew_and_keeps(self, edge: Edge, caller: Caller, calls: Calls) -> None:
        calls.answer(Script(content="old"))
        assert "miss" == caller.post(edge, caller.body()).headers["x-cache"]
        calls.answer(Script(content="new"))
        answer = caller.post(edge, caller.body(), cache_control="max-age=0, no-cache")
        assert "bypass" == answer.headers["x-cache"]
        assert "new" == answer.json()["choices"][0]["message"]["content"]
        hit = caller.post(edge, caller.body())
        assert "hit" == hit.headers["x-cache"]
        assert "new" == hit.json()["choices"][0]["message"]["content"]


class TestIncomplete:
    """An answer that is not whole is never kept."""

    @pytest.mark.parametrize("streamed", [False, True])
    @pytest.mark.parametrize(
        "script",
        [
            Script(end="fin", end_after=2),
            Script(end="rst", end_after=2, gap_ms=5),
            Script(end="fin", end_after=2, framing="close"),
            Script(end="error", end_after=2),
            Script(end="error"),
            Script(end="no_done"),
            Script(end="no_done", framing="close"),
            Script(end="no_done", end_after=2),
            Script(end="fin", end_after=2, end_mid_frame=True),
            Script(finish_reason="error"),
            Script(finish_reason="abort"),
        ],
        ids=lambda s: f"{s.end}-{s.end_after}-{s.framing}-{s.finish_reason}-{s.end_mid_frame}",
    )
    def test_it_is_asked_for_again(
        self, warm: Edge, caller: Caller, calls: Calls, script: Script, *, streamed: bool
    ) -> None:
        calls.answer(script)
        caller.post(warm, caller.body(stream=streamed))
        calls.answer(Script())
        answer = caller.post(warm, caller.body(stream=streamed))
        assert ("miss", 2) == (answer.headers["x-cache"], len(calls.seen))
        assert "hit" == caller.post(warm, caller.body(stream=streamed)).headers["x-cache"]

    @pytest.mark.parametrize("status", [400, 429, 500, 503])
    def test_an_error_status_is_not_kept(
        self, warm: Edge, caller: Caller, calls: Calls, status: int
    ) -> None:
        calls.answer(Script(status=status))
        assert caller.post(warm, caller.body()).status_code >= 400
        calls.answer(Script())
        answer = caller.post(warm, caller.body())
        assert (200, "miss") == (answer.status_code, answer.headers["x-cache"])


class TestLimits:
    def test_an_answer_ages_and_expires(
        self, own_edges: Edges, upstream: UpstreamThread, store: RedisServer, caller: Caller
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, store.url, cache_ttl_s=3))
        first = caller.post(edge, caller.body())
        began = time.monotonic()
        assert "miss" == first.headers["x-cache"]
        assert "age" not in first.headers
        young = int(caller.post(edge, caller.body()).headers["age"])
        time.sleep(1.6)
        hit = caller.post(edge, caller.body())
        assert "hit" == hit.headers["x-cache"]
        # Whole seconds of two clocks' readings: one more or less is rounding.
        assert young <= 1
        assert 1 <= int(hit.headers["age"]) <= 3
        time.sleep(max(0.0, began + 3.2 - time.monotonic()))
        assert "miss" == caller.post(edge, caller.body()).headers["x-cache"]

    def test_an_answer_above_the_limit_is_not_kept(
        self, own_edges: Edges, upstream: UpstreamThread, store: RedisServer, caller: Caller
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, store.url, cache_max_bytes=4000))
        long, short = caller.body("long " * 1000), caller.body("short")
        assert ["miss", "miss"] == [caller.post(edge, long).headers["x-cache"] for _ in "ab"]
        assert ["miss", "hit"] == [caller.post(edge, short).headers["x-cache"] for _ in "ab"]

    def test_without_a_store_every_answer_comes_from_the_upstream(
        self, own_edges: Edges, upstream: UpstreamThread, caller: Caller, calls: Calls
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, "none"))
        for count in (1, 2):
            assert 200 == caller.post(edge, caller.body()).status_code
            assert count == len(calls.seen)
