from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from edge_frontend.answer import Assembler, encode, frames, has_answer, has_content, usage_frame

Json = dict[str, Any]

HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
USAGE: Json = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
METRICS: Json = {"queue_time_ms": 0.5, "time_to_first_token_ms": 41.0}


def chunk(delta: Json | None = None, index: int = 0, **choice: Any) -> Json:
    return {**HEAD, "choices": [{"index": index, "delta": delta or {}, **choice}]}


def end(index: int = 0, reason: str = "stop", **choice: Any) -> Json:
    return chunk({}, index, finish_reason=reason, **choice)


def call(index: int, /, **fields: Any) -> Json:
    return {"tool_calls": [{"index": index, **fields}]}


def assemble(*chunks: Json, n: int = 1) -> Assembler:
    assembler = Assembler(n)
    for each in chunks:
        assembler.add(each)
    return assembler


def message(*chunks: Json) -> Json:
    found: Json = assemble(*chunks).body()["choices"][0]["message"]
    return found


def replayed(body: Json, n: int) -> Assembler:
    return assemble(*map(json.loads, frames(body)), n=n)


class TestOneAnswerIsPutTogether:
    def test_as_vllm_streams_it(self) -> None:
        """Field by field what vLLM 0.32 sends with include_usage and per-request metrics."""
        nothing: Json = {"logprobs": None, "finish_reason": None}
        assembler = assemble(
            chunk({"role": "assistant", "content": ""}, **nothing),
            chunk({"content": "Hel"}, **nothing),
            chunk({"content": "lo"}, logprobs=None, finish_reason="stop", stop_reason=None),
            {**HEAD, "choices": [], "usage": USAGE, "system_fingerprint": "f", "metrics": METRICS},
        )
        assert assembler.complete
        assert USAGE == assembler.usage
        assert METRICS == assembler.metrics
        assert {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 7,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello"},
                    "logprobs": None,
                    "finish_reason": "stop",
                    "stop_reason": None,
                }
            ],
            "usage": USAGE,
            "system_fingerprint": "f",
            "metrics": METRICS,
        } == assembler.body()

    def test_with_choices_interleaved(self) -> None:
        assembler = assemble(
            chunk({"role": "assistant", "content": "b"}, 1),
            chunk({"role": "assistant", "content": "a"}, 0),
            {**HEAD, "choices": [{"index": i, "delta": {"content": "!"}} for i in (1, 0)]},
            end(0, "length"),
            end(1),
            n=2,
        )
        choices = assembler.body()["choices"]
        assert [0, 1] == [choice["index"] for choice in choices]
        assert ["a!", "b!"] == [choice["message"]["content"] for choice in choices]
        assert ["length", "stop"] == [choice["finish_reason"] for choice in choices]

    def test_with_tool_calls_interleaved(self) -> None:
        function = {"name": "f", "arguments": ""}
        found = message(
            chunk({"role": "assistant", "content": None}),
            chunk(call(1, id="c1", type="function", function=function)),
            chunk(call(0, id="c0", type="function", function={**function, "name": "g"})),
            chunk(call(1, function={"arguments": '{"x":'})),
            chunk({"tool_calls": [{"index": i, "function": {"arguments": "1}"}} for i in (0, 1)]}),
        )
        assert {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c0", "type": "function", "function": {"name": "g", "arguments": "1}"}},
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            ],
        } == found

    def test_with_tool_calls_that_have_no_index(self) -> None:
        """Some servers leave it out: a new id begins a call, what has none goes on with it."""
        found = message(
            chunk({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "1"}}]}),
            chunk({"tool_calls": [{"function": {"arguments": "2"}}]}),
            chunk({"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": "3"}}]}),
        )
        assert [
            {"id": "a", "function": {"name": "f", "arguments": "12"}},
            {"id": "b", "function": {"name": "g", "arguments": "3"}},
        ] == found["tool_calls"]

    def test_with_reasoning_refusal_and_texts_we_do_not_know(self) -> None:
        deltas: list[Json] = [
            {"role": "assistant", "reasoning": "I ", "reasoning_content": "I "},
            {"reasoning": "think", "reasoning_content": "think", "x_new": "a"},
            {"content": "ye", "refusal": "n", "x_new": "b"},
            {"content": "s", "refusal": "o", "audio": {"id": "au", "data": "AA", "expires_at": 1}},
            {"audio": {"id": "au", "data": "BB", "expires_at": 2}},
        ]
        assert {
            "role": "assistant",
            "content": "yes",
            "reasoning": "I think",
            "reasoning_content": "I think",
            "x_new": "ab",
            "refusal": "no",
            "audio": {"id": "au", "data": "AABB", "expires_at": 2},
        } == message(*[chunk(delta) for delta in deltas])

    def test_with_log_probabilities_and_token_ids_as_growing_lists(self) -> None:
        first, second = {"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}
        body = assemble(
            chunk({"content": "a"}, logprobs={"content": [first], "refusal": None}, token_ids=[1]),
            chunk({"content": "b"}, logprobs={"content": [second]}, token_ids=[2, 3]),
            end(logprobs=None, token_ids=None),
        ).body()
        assert {"content": [first, second], "refusal": None} == body["choices"][0]["logprobs"]
        assert [1, 2, 3] == body["choices"][0]["token_ids"]

    def test_with_what_identifies_taken_once(self) -> None:
        """Some servers repeat role, id and name in every chunk, others send them empty later."""
        repeated = call(0, id="c", type="function", function={"name": "f", "arguments": "x"})
        emptied = call(0, id="", type="function", function={"name": "", "arguments": "y"})
        found = message(
            chunk({"role": "assistant", **repeated}),
            chunk({"role": "assistant", **repeated}),
            chunk({"role": "", **emptied}),
        )
        assert "assistant" == found["role"]
        assert [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "xxy"}}
        ] == found["tool_calls"]

    def test_with_texts_outside_the_delta_replaced(self) -> None:
        severity = {"hate": {"filtered": False, "severity": "safe"}}
        body = assemble(
            chunk({"content": "a"}, content_filter_results=severity),
            end(content_filter_results=severity, stop_reason="</s>"),
        ).body()
        assert severity == body["choices"][0]["content_filter_results"]
        assert "</s>" == body["choices"][0]["stop_reason"]

    def test_with_other_fields_at_the_top_kept_and_numbers_exact(self) -> None:
        body = assemble(
            {**chunk({"content": "a"}), "prompt_token_ids": [1, 2], "service_tier": None},
            {**end(), "x_new": {"a": [2**53 + 1]}, "prompt_token_ids": None},
        ).body()
        assert [1, 2] == body["prompt_token_ids"]
        assert body["service_tier"] is None
        assert b'"x_new":{"a":[9007199254740993]}' in encode(body)

    def test_and_the_chunks_are_left_as_they_were(self) -> None:
        chunks = [
            chunk({"content": "a", "parts": [1], "o": {"l": [1]}}, logprobs={"content": [1]}),
            chunk({"content": "b", "parts": [2], "o": {"l": [2]}}, logprobs={"content": [2]}),
        ]
        before = copy.deepcopy(chunks)
        assembler = assemble(*chunks)
        early = assembler.body()
        kept = copy.deepcopy(early)
        assembler.add(chunk({"content": "c", "parts": [3], "o": {"l": [3]}}))
        assert before == chunks
        assert kept == early
        assert "abc" == assembler.body()["choices"][0]["message"]["content"]


class TestContentIs:
    def test_null_when_only_tool_calls_came(self) -> None:
        assert (
            message(chunk({"role": "assistant", "content": ""}), chunk(call(0)))["content"] is None
        )

    def test_empty_when_nothing_came(self) -> None:
        assert "" == message(chunk({"role": "assistant", "content": ""}), end())["content"]

    def test_null_when_it_was_never_spoken_of(self) -> None:
        assert {"role": "assistant", "content": None} == message(end())

    def test_kept_beside_tool_calls(self) -> None:
        assert (
            "Let me see." == message(chunk({"content": "Let me see."}), chunk(call(0)))["content"]
        )

    def test_not_erased_by_a_null(self) -> None:
        assert "a" == message(chunk({"content": "a"}), chunk({"content": None}))["content"]


class TestUsageIs:
    def test_the_last_one_that_came(self) -> None:
        counting = [{**chunk(), "usage": {**USAGE, "completion_tokens": i}} for i in range(3)]
        assert {**USAGE, "completion_tokens": 2} == assemble(*counting).usage

    def test_absent_when_only_nulls_came(self) -> None:
        assembler = assemble({**chunk(), "usage": None, "metrics": None}, end())
        assert assembler.usage is None
        assert assembler.metrics is None
        assert not {"usage", "metrics"} & assembler.body().keys()

    def test_not_erased_by_a_null(self) -> None:
        last = {**HEAD, "choices": [], "usage": None}
        assert USAGE == assemble({**end(), "usage": USAGE}, last).usage


class TestAnAnswerIsComplete:
    @pytest.mark.parametrize(
        "reason", ["stop", "length", "tool_calls", "content_filter", "function_call", "repetition"]
    )
    def test_when_it_ended_for_a_reason_of_its_own(self, reason: str) -> None:
        assert assemble(chunk({"content": "a"}), end(reason=reason)).complete

    def test_also_when_a_null_follows_the_reason(self) -> None:
        assert assemble(end(), chunk({}, finish_reason=None)).complete

    @pytest.mark.parametrize("reason", ["abort", "error", "", None, True, 1])
    def test_but_not_when_the_engine_gave_up(self, reason: Any) -> None:
        assert not assemble(chunk({"content": "a"}), end(reason=reason)).complete

    def test_but_not_before_every_choice_has_ended(self) -> None:
        assert not assemble().complete
        assert not assemble(chunk({"content": "a"})).complete
        assert not assemble(end(0), n=2).complete
        assert not assemble(end(0), chunk({"content": "a"}, 1), n=2).complete
        assert assemble(end(1), end(0), n=2).complete

    def test_but_not_with_a_choice_that_nobody_asked_for(self) -> None:
        assert not assemble(end(0), end(1)).complete
        assert not assemble(end(1)).complete

    def test_but_not_once_an_error_came(self) -> None:
        assert not assemble({"error": {"message": "no"}}, end()).complete
        assert assemble({**HEAD, "error": None, "choices": []}, end()).complete

    @pytest.mark.parametrize(
        "malformed",
        [
            {"choices": "none"},
            {"choices": ["none"]},
            {"choices": [{"index": "0", "delta": {"content": "lost"}}]},
            {"choices": [{"index": None, "delta": {"content": "lost"}}]},
            {"choices": [{"index": 0, "delta": "lost"}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": "lost"}}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": ["lost"]}}]},
        ],
    )
    def test_but_not_when_a_chunk_had_not_the_shape_of_one(self, malformed: Json) -> None:
        assembler = assemble(malformed, end())
        assert not assembler.complete
        assert "lost" not in json.dumps(assembler.body())

    def test_with_nulls_where_servers_put_them(self) -> None:
        nulls: list[Json] = [{"choices": None}, {"choices": [{"index": 0, "delta": None}]}]
        assert assemble(*nulls, chunk({"tool_calls": None}), end()).complete


CONTENT = [
    ({"content": "a"}, True, True),
    ({"refusal": "no"}, True, True),
    ({"reasoning": "hm"}, True, False),
    ({"reasoning_content": "hm"}, True, False),
    ({"reasoning": "hm", "content": "a"}, True, True),
    (call(0, id="c", type="function", function={"name": "f", "arguments": ""}), True, True),
    (call(0, function={"arguments": "{"}), True, True),
    (call(0, custom={"input": "x"}), True, True),
    ({"function_call": {"name": "f"}}, True, True),
    ({"function_call": {"arguments": ""}}, False, False),
    (call(0, function={"arguments": ""}), False, False),
    (call(0, type="function"), False, False),
    ({"role": "assistant"}, False, False),
    ({"role": "assistant", "content": "", "refusal": None, "tool_calls": []}, False, False),
    ({"content": None, "reasoning": "", "tool_calls": None}, False, False),
    ({"tool_calls": "x"}, False, False),
    ({"tool_calls": ["x", None]}, False, False),
    ({}, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("delta", "content", "answer"), CONTENT)
def test_first_content_is_told_from_what_only_opens_an_answer(
    delta: Json, content: bool, answer: bool
) -> None:
    assert (content, answer) == (has_content(chunk(delta)), has_answer(chunk(delta)))
    second = {**HEAD, "choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": delta}]}
    assert (content, answer) == (has_content(second), has_answer(second))


@pytest.mark.parametrize(
    "odd",
    [{}, {"choices": None}, {"choices": []}, {"choices": 1}, {"choices": [None, {"delta": 1}]}],
)
def test_a_chunk_without_choices_has_no_content(odd: Json) -> None:
    assert not has_content(odd)
    assert not has_answer(odd)


texts = st.text(st.characters(), max_size=12)  # with lone surrogates
some_text = texts.filter(bool)
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
tool_calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": some_text,
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": some_text, "arguments": texts}),
        },
        optional={"x_new": plain},
    ),
    min_size=1,
    max_size=3,
)
token = st.fixed_dictionaries({"token": texts, "logprob": st.floats(-99, 0), "bytes": st.none()})
logprobs = st.none() | st.fixed_dictionaries(
    {"content": st.none() | st.lists(token, max_size=3)}, optional={"refusal": st.none()}
)
nullable = st.none() | texts
messages = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": nullable},
    optional={
        "reasoning": nullable,
        "reasoning_content": nullable,
        "refusal": nullable,
        "tool_calls": st.none() | st.just([]) | tool_calls,
        "function_call": st.none() | st.fixed_dictionaries({"name": some_text, "arguments": texts}),
        "annotations": st.none() | st.lists(plain, max_size=2),
        "x_new": plain,
    },
).map(lambda said: {**said, "content": said["content"] or None} if said.get("tool_calls") else said)
choice_fields = st.fixed_dictionaries(
    {"message": messages, "finish_reason": st.sampled_from(["stop", "length", "tool_calls"])},
    optional={
        "logprobs": logprobs,
        "stop_reason": st.none() | st.integers() | texts,
        "token_ids": st.none() | st.lists(st.integers(), max_size=3),
        "content_filter_results": st.dictionaries(texts, st.dictionaries(texts, texts)),
    },
)
usages = st.none() | st.fixed_dictionaries({"prompt_tokens": st.integers(0, 2**63)})
bodies = st.builds(
    lambda head, choices, usage, metrics: {
        **head,
        "object": "chat.completion",
        "choices": [{"index": i, **choice} for i, choice in enumerate(choices)],
        **({"usage": usage} if usage else {}),
        **({"metrics": METRICS} if usage and metrics else {}),
    },
    st.fixed_dictionaries(
        {"id": some_text, "created": st.integers(), "model": some_text},
        optional={
            "service_tier": nullable,
            "system_fingerprint": nullable,
            "prompt_token_ids": st.none() | st.lists(st.integers(), max_size=3),
            "kv_transfer_params": st.none() | st.dictionaries(texts, plain, max_size=2),
        },
    ),
    st.lists(choice_fields, min_size=1, max_size=3),
    usages,
    st.booleans(),
)


def as_sent(body: Json) -> Json:
    """A body as a client reads it: JSON makes one character of two halves that meet."""
    read: Json = json.loads(encode(body))
    return read


@given(bodies)
def test_the_frames_of_any_body_give_the_body_again(body: Json) -> None:
    assembler = replayed(body, len(body["choices"]))
    usage = usage_frame(body)
    if usage is not None:
        assembler.add(json.loads(usage))
    assert assembler.complete
    assert as_sent(body) == as_sent(assembler.body())


def in_two(function: Json, at: int) -> tuple[Json, Json]:
    arguments = function["arguments"]
    return {**function, "arguments": arguments[:at]}, {"arguments": arguments[at:]}


def split(delta: Json, at: int) -> Iterator[Json]:
    """Give a delta field by field, every text and all arguments in two pieces."""
    for name, value in delta.items():
        if isinstance(value, str) and name != "role":
            yield from ({name: value[:at]}, {name: value[at:]})
        elif name == "function_call" and value:
            yield from ({name: piece} for piece in in_two(value, at))
        elif name == "tool_calls" and value:
            [part] = value
            first, second = in_two(part["function"], at)
            yield {name: [{**part, "function": first}]}
            yield {name: [{"index": part["index"], "function": second}]}
        else:
            yield {name: value}


@given(bodies, st.lists(st.integers(0, 12), min_size=1, max_size=6))
@example(
    {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "\ud83d\ude00", "reasoning": "\ud83d"},
                "finish_reason": "stop",
            }
        ],
    },
    [1],
)
def test_where_its_texts_were_split_does_not_show_in_the_body(body: Json, at: list[int]) -> None:
    assembler = Assembler(len(body["choices"]))
    for number, payload in enumerate(frames(body)):
        whole = json.loads(payload)
        [choice] = whole["choices"]
        for delta in split(choice.pop("delta"), at[number % len(at)]):
            assembler.add({**whole, "choices": [{"index": choice["index"], "delta": delta}]})
        assembler.add({**whole, "choices": [choice]})
    assert assembler.complete
    expected = {k: v for k, v in body.items() if k not in ("usage", "metrics")}
    assert as_sent(expected) == as_sent(assembler.body())


WHOLE: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 7,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hi \ud83d",
                "reasoning": "Hm",
                "refusal": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                ],
            },
            "logprobs": {
                "content": [{"token": "Hi", "logprob": -1.0, "bytes": None, "top_logprobs": []}]
            },
            "finish_reason": "tool_calls",
            "stop_reason": 2,
        }
    ],
    "usage": USAGE,
    "system_fingerprint": "f",
    "prompt_token_ids": [1],
}


class TestAReplayedStream:
    def test_opens_thinks_speaks_calls_and_ends(self) -> None:
        chunks = [json.loads(payload) for payload in frames(WHOLE)]
        first, *rest = WHOLE["choices"][0]["message"]["tool_calls"]
        assert [
            {"role": "assistant", "content": "", "refusal": None},
            {"reasoning": "Hm"},
            {"content": "Hi \ud83d"},
            call(0, **first),
            call(1, **rest[0]),
            {},
        ] == [each["choices"][0]["delta"] for each in chunks]
        assert [None] * 5 + ["tool_calls"] == [c["choices"][0]["finish_reason"] for c in chunks]
        assert 2 == chunks[-1]["choices"][0]["stop_reason"]
        assert WHOLE["choices"][0]["logprobs"] == chunks[2]["choices"][0]["logprobs"]

    def test_names_the_answer_in_every_chunk_and_other_fields_once(self) -> None:
        chunks = [json.loads(payload) for payload in frames(WHOLE)]
        head = {**HEAD, "system_fingerprint": "f"}
        assert all(head.items() <= each.items() for each in chunks)
        assert [1] == chunks[0]["prompt_token_ids"]
        assert all("prompt_token_ids" not in each for each in chunks[1:])

    def test_keeps_log_probabilities_where_there_is_no_text(self) -> None:
        body = copy.deepcopy(WHOLE)
        body["choices"][0]["message"]["content"] = None
        assert (
            WHOLE["choices"][0]["logprobs"]
            == (json.loads(frames(body)[-1])["choices"][0]["logprobs"])
        )

    def test_keeps_empty_content_beside_tool_calls_for_the_client(self) -> None:
        """vLLM answers a forced tool with empty content, not null; its stream looks the same."""
        body = copy.deepcopy(WHOLE)
        body["choices"][0]["message"]["content"] = ""
        assert "" == json.loads(frames(body)[0])["choices"][0]["delta"]["content"]

    def test_tells_usage_and_metrics_only_in_the_frame_for_it(self) -> None:
        told = usage_frame({**WHOLE, "metrics": METRICS})
        assert told is not None
        assert {
            **HEAD,
            "system_fingerprint": "f",
            "choices": [],
            "usage": USAGE,
            "metrics": METRICS,
        } == json.loads(told)
        assert all(b'"usage"' not in each and b'"metrics"' not in each for each in frames(WHOLE))
        assert usage_frame({**WHOLE, "usage": None}) is None

    def test_is_compact_ascii_without_line_ends(self) -> None:
        body = copy.deepcopy(WHOLE)
        body["choices"][0]["message"]["content"] = "é\n\u2028\ud800"
        for payload in frames(body):
            assert payload.isascii()
            assert not {b"\n", b"\r"} & {payload[i : i + 1] for i in range(len(payload))}
            assert b'": ' not in payload

    def test_is_of_the_types_that_the_openai_client_reads(self) -> None:
        for payload in [*frames(WHOLE), usage_frame(WHOLE)]:
            assert payload is not None
            ChatCompletionChunk.model_validate_json(payload.replace(b"\\ud83d", b""), strict=True)
        body = replayed(WHOLE, 1).body()
        ChatCompletion.model_validate_json(encode(body).replace(b"\\ud83d", b""), strict=True)
