"""Chunks of a guarded stream: their form, their order, and what they leave to others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend import answer
from edge_frontend.errors import ContentPolicyViolation
from edge_frontend.guard_rules import RULES, read
from edge_frontend.guard_stream import Chunk, OutputGuard, asks_for_json

pytestmark = pytest.mark.fault(1)

STANDARD = RULES["standard@1"]
HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(delta: object, finish: str | None = None, *, index: int = 0, **fields: Any) -> Chunk:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **fields}


def guarded(chunks: Iterable[Chunk], guard: OutputGuard | None = None) -> list[Chunk]:
    guard = guard or OutputGuard(STANDARD)
    return [out for given in chunks for out in guard.feed(given)] + guard.end()


def whole(chunks: Iterable[Chunk], choices: int = 1) -> dict[str, Any]:
    assembler = answer.Assembler(choices)
    for one in chunks:
        assembler.add(one)
    return assembler.body()


def test_a_stream_of_one_address_is_role_mask_end_and_usage() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    given_chunks = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "dana.q@exa"}),
        chunk({"content": "mple.test"}),
        chunk({}, "stop"),
        {**HEAD, "choices": [], "usage": usage},
    ]
    assert [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "[email]"}),
        chunk({}, "stop"),
        {**HEAD, "choices": [], "usage": usage},
    ] == guarded(given_chunks)


def test_chunks_without_a_match_pass_as_they_are() -> None:
    given_chunks = [chunk({"role": "assistant", "content": ""}), chunk({"content": "Hi there. "})]
    assert given_chunks == guarded(given_chunks)


def test_a_chunk_whose_text_is_held_back_stays_while_it_says_something_else() -> None:
    usage = {"completion_tokens": 1}
    guard = OutputGuard(STANDARD)
    assert [] == guard.feed(chunk({"content": "dana"}))
    with_usage = chunk({"content": "dana"}, usage=usage)
    assert [chunk({"content": ""}, usage=usage)] == guard.feed(with_usage)
    assert [chunk({"role": "assistant", "content": ""})] == guard.feed(
        chunk({"role": "assistant", "content": "x"})
    )


def test_the_text_of_the_last_chunk_stands_before_its_finish_reason() -> None:
    assert [
        chunk({"content": "by "}),
        chunk({"content": "dana"}),
        chunk({}, "length"),
    ] == guarded([chunk({"content": "by "}), chunk({"content": "dana"}, "length")])


def test_choices_do_not_touch_one_another() -> None:
    given_chunks = [
        chunk({"content": "a@example"}, index=0),
        chunk({"content": "b@example"}, index=1),
        chunk({"content": ".test"}, index=0),
        chunk({"content": " none"}, index=1),
        chunk({}, "stop", index=1),
        chunk({}, "stop", index=0),
    ]
    body = whole(guarded(given_chunks), 2)
    assert ["[email]", "b@example none"] == [c["message"]["content"] for c in body["choices"]]


def test_reasoning_content_and_arguments_are_texts_of_their_own() -> None:
    function = {"name": "send", "arguments": ""}
    call = {"index": 0, "id": "x", "type": "function", "function": function}
    given_chunks = [
        chunk({"role": "assistant", "reasoning": "ask a@exam"}),
        chunk({"content": "is it "}),
        chunk({"reasoning": "ple.test"}),
        chunk({"content": "b@example.test"}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"to": "c@ex'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'ample.test", "n": 41'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "11111111111111}"}}]}),
        chunk({}, "tool_calls"),
    ]
    message = whole(guarded(given_chunks))["choices"][0]["message"]
    assert "ask [email]" == message["reasoning"]
    assert "is it [email]" == message["content"]
    assert "send" == message["tool_calls"][0]["function"]["name"]
    arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert {"to": "[email]", "n": "[card]"} == arguments


def test_a_tool_call_without_an_index_is_guarded_at_once() -> None:
    call = {"id": "x", "function": {"name": "f", "arguments": '{"to":"c@example.test"}'}}
    (out,) = guarded([chunk({"tool_calls": [call]})])
    call = {"id": "x", "function": {"name": "f", "arguments": '{"to":"[email]"}'}}
    assert chunk({"tool_calls": [call]}) == out


def test_log_probabilities_and_token_ids_do_not_spell_what_is_masked() -> None:
    given_chunk = chunk({"content": "a@example.test "})
    given_chunk["choices"][0] |= {
        "logprobs": {"content": [{"token": "a@example.test"}]}, "token_ids": [1, 2],
    }  # fmt: skip
    (out,) = guarded([given_chunk])
    assert {"logprobs": None, "token_ids": None} == {
        name: out["choices"][0][name] for name in ("logprobs", "token_ids")
    }


def test_what_is_json_by_request_stays_json() -> None:
    texts = ['{"card": 4111', "111111111111, ", '"mail": "a\\u0040exam', 'ple.test"}']
    chunks = [*(chunk({"content": text}) for text in texts), chunk({}, "stop")]
    passed = guarded(chunks, OutputGuard(STANDARD, json_content=True))
    content = whole(passed)["choices"][0]["message"]["content"]
    assert {"card": "[card]", "mail": "[email]"} == json.loads(content)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ({"guided_json": {}}, False),
        ({"guided_json": {"type": "object"}}, True),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": "json_object"}, False),
        ({}, False),
    ],
)
def test_a_request_says_whether_it_wants_json(fields: dict[str, Any], wanted: bool) -> None:
    assert wanted is asks_for_json(fields)


def test_a_rule_that_blocks_ends_the_stream_before_its_match() -> None:
    rules = read("b", b"[[rule]]\nname='code'\npattern='blue ?bird'\noutput='block'\n")
    guard = OutputGuard(rules)
    passed = guard.feed(chunk({"content": "It is blue"}))
    assert "It is " == passed[0]["choices"][0]["delta"]["content"]
    with pytest.raises(ContentPolicyViolation):
        guard.feed(chunk({"content": " bird"})) + guard.feed(chunk({"content": "!"}))
    assert {"code"} == guard.fired


def test_a_rule_that_flags_sees_across_chunks_and_holds_nothing_back() -> None:
    rules = read("f", b"[[rule]]\nname='code'\npattern='blue ?bird'\noutput='flag'\n")
    guard = OutputGuard(rules)
    for text in ["It is blue", " bi", "rd"]:
        assert [chunk({"content": text})] == guard.feed(chunk({"content": text}))
    assert [] == guard.end()
    assert {"code"} == guard.fired


def test_a_stream_without_an_end_of_its_choice_leaves_its_rest_at_its_own() -> None:
    assert [chunk({"content": "dana"})] == guarded([chunk({"content": "dana"})])


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": []},
        {"choices": None},
        {"error": {"message": "x"}},
        {"choices": [None]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"delta": {"content": None}}]},
        {"choices": [{"delta": {"tool_calls": [None, 3, {"function": None}]}}]},
    ],
)
def test_chunks_of_another_shape_pass(odd: Chunk) -> None:
    (out,) = OutputGuard(STANDARD).feed(odd)
    assert odd.get("choices", ["none"]) in (out.get("choices", ["none"]), [{"index": 0}])


@given(
    st.lists(st.sampled_from(["dana.q@", "exam", "ple.test", " ", "é", "4111 1111 ", "\n"])),
    st.booleans(),
)
def test_one_body_and_a_stream_of_it_say_the_same(texts: list[str], ends_with_text: bool) -> None:
    chunks = [chunk({"role": "assistant"}), *(chunk({"content": text}) for text in texts)]
    if ends_with_text and texts:
        chunks[-1]["choices"][0]["finish_reason"] = "stop"
    else:
        chunks.append(chunk({}, "stop"))
    assert OutputGuard(STANDARD).body(whole(chunks)) == whole(guarded(chunks))
