from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.errors import BadRequest
from edge_frontend.request import ROLES, ChatRequest, parse
from edge_frontend.untrusted import MAX_DEPTH

USER = {"role": "user", "content": "hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def parsed(**fields: Any) -> ChatRequest:
    return parse(json.dumps({"model": "m", "messages": [USER]} | fields).encode())


def refused(body: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse(body)
    assert 400 == caught.value.status
    return caught.value


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("null content and a call", {"role": "assistant", "content": None, "tool_calls": [CALL]}),
        ("no content beside tool calls", {"role": "assistant", "tool_calls": [CALL]}),
        ("an empty assistant text", {"role": "assistant", "content": ""}),
        ("a tool reply", {"role": "tool", "tool_call_id": "call_1", "content": "4"}),
        ("a tool reply in parts", {"role": "tool", "content": [{"type": "text", "text": "4"}]}),
        ("a function reply", {"role": "function", "name": "f", "content": "4"}),
        ("system as text parts", {"role": "system", "content": [{"type": "text", "text": "x"}]}),
        ("a developer", {"role": "developer", "content": "x"}),
        ("an image", {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}),
        ("unknown fields", {"role": "user", "content": "x", "name": "n", "x_new": [None]}),
    ],
)  # fmt: skip
def test_a_legal_message_is_accepted_as_it_is(what: str, message: dict[str, Any]) -> None:
    assert [USER, message] == parsed(messages=[USER, message]).fields["messages"]


@pytest.mark.parametrize("role", ["assistent", "User", "", "root", None, 1, ["user"], {"a": 1}])
def test_a_made_up_role_is_refused_by_its_place(role: Any) -> None:
    error = refused(
        json.dumps({"model": "m", "messages": [USER, {"role": role, "content": "x"}]}).encode()
    )
    assert "messages[1].role" == error.param
    assert all(known in error.message for known in ROLES)


@pytest.mark.parametrize("content", [None, 1, {}, [1], ["text"], [{"text": "no type"}], True])
@pytest.mark.parametrize("role", ["user", "system", "developer", "tool"])
def test_content_that_is_neither_text_nor_parts_is_refused(role: str, content: Any) -> None:
    message = {"role": role, "content": content}
    error = refused(json.dumps({"model": "m", "messages": [message]}).encode())
    assert "messages[0].content" == error.param


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"1", b"\xff\xfe", b"{'model': 'm'}", b"{}",
        b'{"model":"m"}', b'{"model":"m","messages":[]}', b'{"model":"m","messages":{}}',
        b'{"model":"m","messages":["hi"]}', b'{"messages":[{"role":"user","content":"x"}]}',
        b'{"model":"","messages":[{"role":"user","content":"x"}]}',
        b'{"model":7,"messages":[{"role":"user","content":"x"}]}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_chat_request_is_refused(body: bytes) -> None:
    refused(body)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stream", "true"), ("stream", 1), ("max_tokens", 0), ("max_tokens", -1),
        ("max_tokens", 1.5), ("max_tokens", True), ("max_tokens", "5"),
        ("max_completion_tokens", 0), ("n", 0), ("n", "2"), ("n", []),
        ("stream_options", {"include_usage": True}), ("stream_options", []),
    ],
)  # fmt: skip
def test_a_field_the_edge_must_know_is_checked_and_named(name: str, value: Any) -> None:
    error = refused(json.dumps({"model": "m", "messages": [USER], name: value}).encode())
    assert name == error.param
    assert name in error.message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("where", ['"temperature":%s', '"x":{"a":[%s]}'])
def test_a_number_that_json_does_not_have_is_refused(number: str, where: str) -> None:
    field = where % number
    refused(b'{"model":"m","messages":[{"role":"user","content":"x"}],%s}' % field.encode())


def test_an_integer_of_thousands_of_digits_is_refused_and_no_crash() -> None:
    refused(b'{"model":"m","messages":[{"role":"user","content":"x"}],"x":' + b"9" * 5_000 + b"}")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 300, 900, 2_000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused_and_no_crash(depth: int, opening: str) -> None:
    closing = {"[": "]"}.get(opening, "}")
    deep = opening * depth + "1" + closing * depth
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"x":%s}' % deep.encode()
    assert f"deeper than {MAX_DEPTH}" in refused(body).message


def test_nesting_up_to_the_limit_and_any_number_of_brackets_is_accepted() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert deep == parsed(x=deep).fields["x"]
    wide: list[Any] = [[{}] for _ in range(1_000)]
    assert wide == parsed(x=wide).fields["x"]


@pytest.mark.parametrize(
    "field",
    [
        '"max_completion_tokens":7', '"top_k":40', '"x_new":{"a":[1]}', '"x":9007199254740993',
        '"x":-9007199254740993', '"x":123456789012345678901234567890', '"x":0.1', '"x":1e-7',
        '"x":1.0', '"x":"\\ud800"', '"x":"\\u0000"', '"x":null', '"x":{}', '"x":[]', '"x":""',
        '"chat_template_kwargs":{"enable_thinking":false}',
    ],
)  # fmt: skip
def test_a_field_we_do_not_know_survives_value_for_value(field: str) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}],%s}' % field.encode()
    name = field.split('"')[1]
    kept, sent = parse(body).fields[name], json.loads("{" + field + "}")[name]
    assert (type(sent), sent) == (type(kept), kept)
    assert f'"{name}":' in json.dumps(parse(body).fields, separators=(",", ":"))
    assert field in json.dumps(parse(body).fields, separators=(",", ":")).replace("1e-07", "1e-7")


@given(st.dictionaries(st.text().map(lambda name: "x_" + name), json_values, max_size=4))
def test_what_is_read_can_be_written_again(fields: dict[str, Any]) -> None:
    request = parsed(**fields)
    assert {"model": "m", "messages": [USER]} | fields == request.fields
    assert request.fields == json.loads(json.dumps(request.fields))


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]",:01eE.-+ntrue \\u', max_size=40).map(str.encode)
)
def test_any_bytes_are_a_request_or_refused(body: bytes) -> None:
    with contextlib.suppress(BadRequest):
        assert parse(body).fields["messages"]


@pytest.mark.parametrize(
    ("deterministic", "fields"),
    [
        (False, {}),
        (True, {"temperature": 0}),
        (True, {"temperature": 0.0}),
        (True, {"temperature": -0.0}),
        (False, {"temperature": None}),
        (False, {"temperature": False}),
        (False, {"temperature": "0"}),
        (False, {"temperature": 0.1}),
        (True, {"seed": 0}),
        (True, {"seed": 7, "temperature": 1}),
        (False, {"seed": None}),
        (False, {"seed": True}),
        (False, {"seed": "7"}),
    ],
)
def test_only_temperature_zero_or_a_seed_is_deterministic(
    deterministic: bool, fields: dict[str, Any]
) -> None:
    assert deterministic is parsed(**fields).deterministic


def test_the_facts_the_flow_turns_on_are_read() -> None:
    request = parsed(stream=True, stream_options={"include_usage": True}, n=3)
    assert ("m", True, True, 3) == (
        request.model, request.stream, request.wants_usage, request.choices,
    )  # fmt: skip
    plain = parsed(stream=None, stream_options=None, n=None, max_tokens=None)
    assert ("m", False, False, 1) == (plain.model, plain.stream, plain.wants_usage, plain.choices)
    assert parsed(stream=True, stream_options={}).wants_usage is False


def test_no_value_of_a_request_stands_in_an_error() -> None:
    body = {"model": "m", "messages": [{"role": "canary-role", "content": "canary"}]}
    assert "canary" not in refused(json.dumps(body).encode()).message
    assert "canary" not in refused(b'{"canary": canary}').message
