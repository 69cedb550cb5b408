"""Every valid shape of a request reaches the upstream, every field of it value for value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.upstream import UpstreamThread
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge, Edges, settings

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
PART = {"type": "text", "text": "be brief"}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "assistant with null content and tool calls": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ],
    "assistant without content": [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]},
    ],
    "empty assistant text": [{"role": "assistant", "content": ""}],
    "system as text parts": [{"role": "system", "content": [PART, PART]}],
    "user parts with an image": [
        {
            "role": "user",
            "name": "dana",
            "content": [
                PART,
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
            ],
        }
    ],
    "function reply": [{"role": "function", "name": "f", "content": "42"}],
    "unknown fields of a message": [{"role": "user", "content": "x", "x_new": {"a": [2**53 + 1]}}],
}


@pytest.mark.fault(15)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_valid_shape_reaches_the_upstream(
    edge: Edge, caller: Caller, calls: Calls, shape: str
) -> None:
    messages = [*SHAPES[shape], *caller.body()["messages"]]
    answer = caller.post(edge, caller.body() | {"messages": messages})
    assert 200 == answer.status_code
    assert messages == calls.only.json["messages"]


@pytest.mark.fault(15)
@pytest.mark.parametrize("content", ["be brief", [PART]])
def test_a_developer_becomes_a_system(
    edge: Edge, caller: Caller, calls: Calls, content: Any
) -> None:
    messages = [{"role": "developer", "content": content}, *caller.body()["messages"]]
    assert 200 == caller.post(edge, caller.body() | {"messages": messages}).status_code
    assert {"role": "system", "content": content} == calls.only.json["messages"][0]


@pytest.mark.fault(15)
@pytest.mark.parametrize(
    "messages",
    [
        [],
        None,
        "hello",
        [{"role": "wizard", "content": "x"}],
        [{"role": "System", "content": "x"}],
        [{"content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": ["x"]}],
        [{"role": "user", "content": {"type": "text"}}],
        ["x"],
    ],
)
def test_what_is_no_message_is_a_400(
    warm: Edge, caller: Caller, calls: Calls, messages: Any
) -> None:
    answer = caller.post(warm, caller.body() | {"messages": messages})
    assert (400, "invalid_request_error") == (answer.status_code, answer.json()["error"]["type"])
    assert [] == calls.seen


FIELDS = """
    "max_completion_tokens": 11, "top_k": 3, "x_new": {"a": [1]}, "x_big": 9007199254740993,
    "x_huge": 123456789012345678901234567890, "x_float": 0.1, "x_tiny": 1e-7, "x_null": null,
    "x_text": "\\ud83d \\u0000 grüße", "chat_template_kwargs": {"enable_thinking": false},
    "logit_bias": {"50256": -100}, "stop": ["a", "b"], "seed": 9007199254740993, "user": "u",
    "min_p": 0.05, "temperature": 0, "metadata": {"k": "v"}
"""


STREAMED = ', "stream": true, "stream_options": {"continuous_usage_stats": true}'


@pytest.mark.fault(16)
@pytest.mark.parametrize("streamed", [False, True])
def test_every_field_reaches_the_upstream_value_for_value(
    edge: Edge, caller: Caller, calls: Calls, *, streamed: bool
) -> None:
    more = STREAMED if streamed else ""
    messages = f'[{{"role": "user", "content": "{caller.marker}"}}]'
    text = f'{{"model": "mock", "messages": {messages}, {FIELDS} {more}}}'
    answer = caller.post(edge, text.encode())
    assert 200 == answer.status_code
    sent, got = json.loads(text), calls.only.json
    options = got.pop("stream_options")
    assert sent.pop("stream_options", {}) == {
        name: value for name, value in options.items() if name != "include_usage"
    }
    assert options["include_usage"] is True
    assert got.pop("stream") is True
    sent.pop("stream", None)
    assert sent == got
    # Python compares 1 and 1.0 as equal, and JSON's text does not lie.
    assert json.dumps(sent, sort_keys=True) == json.dumps(got, sort_keys=True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"max_tokens": 77}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"max_tokens": None}, {"max_tokens": 77}),
    ],
)
def test_the_operators_cap_fills_in_for_the_clients(
    own_edges: Edges,
    upstream: UpstreamThread,
    caller: Caller,
    calls: Calls,
    fields: dict[str, Any],
    expected: dict[str, int],
) -> None:
    edge = own_edges.start(settings({"mock": upstream.url}, "none", max_tokens=77))
    assert 200 == caller.post(edge, caller.body(**fields)).status_code
    got = calls.only.json
    names = ("max_tokens", "max_completion_tokens")
    assert expected == {name: got[name] for name in names if name in got}


def test_what_cannot_fit_the_context_is_a_clear_400(
    own_edges: Edges, upstream: UpstreamThread, caller: Caller, calls: Calls
) -> None:
    models = {"mock": {"url": upstream.url, "context_tokens": 512}}
    edge = own_edges.start(settings(models, "none"))
    for body in (caller.body("word " * 2000), caller.body(max_tokens=600)):
        answer = caller.post(edge, body)
        assert (400, "context_length_exceeded") == (
            answer.status_code,
            answer.json()["error"]["code"],
        )
    assert [] == calls.seen
    assert 200 == caller.post(edge, caller.body("word " * 100, max_tokens=100)).status_code


def test_the_template_stands_around_what_the_user_says(
    own_edges: Edges, upstream: UpstreamThread, caller: Caller, calls: Calls
) -> None:
    edge = own_edges.start(settings({"mock": upstream.url}, "none", template="brief@1"))
    answer = caller.post(edge, caller.body("question"), x_nearfar_trace="1")
    assert answer.json()["nearfar"]["template_version"].startswith("brief@1+")
    first, last = calls.only.json["messages"]
    assert ("system", "user") == (first["role"], last["role"])
    assert f"{caller.marker} question" in last["content"]
