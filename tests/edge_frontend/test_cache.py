from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.cache import Entry, Policy, decode, encode, key, policy
from edge_frontend.request import parse
from edge_frontend.routes import Route, Upstream

ROUTE = Route("small", Upstream("gpu", "http", "gpu:8000", ""), "served", "r1", 2048, "s1")
BASE: dict[str, Any] = {
    "model": "small",
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Question"},
    ],
    "temperature": 0,
}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"a": 1, "b": 2}}}
PARTS = [{"type": "text", "text": "Question"}]
VARIED: dict[str, Any] = {
    "model": "other",
    "temperature": 0.5,
    "max_tokens": 7,
    "max_completion_tokens": 7,
    "top_p": 0.9,
    "stop": ["x"],
    "n": 2,
    "seed": 1,
    "tools": [TOOL],
    "tool_choice": "none",
    "parallel_tool_calls": False,
    "response_format": {"type": "json_object"},
    "logprobs": True,
    "top_logprobs": 3,
    "logit_bias": {"5": 1},
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "user": "u",
    "reasoning_effort": "low",
    # vLLM's own
    "top_k": 40,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "min_tokens": 3,
    "ignore_eos": True,
    "stop_token_ids": [1],
    "bad_words": ["x"],
    "skip_special_tokens": False,
    "chat_template": "x",
    "chat_template_kwargs": {"enable_thinking": False},
    "add_generation_prompt": False,
    "continue_final_message": True,
    "structured_outputs": {"json": {}},
    "cache_salt": "x",
    "documents": [{"text": "x"}],
    # nobody's
    "x_new": {"a": [1]},
    "": 1,
}


def named(fields: dict[str, Any], *, route: Route = ROUTE, tenant: str = "acme",
          template: str = "plain@1+a", cap: int | None = 512) -> str:  # fmt: skip
    return key(parse(json.dumps(fields).encode()), route, tenant, template, cap)


@pytest.mark.parametrize(("name", "value"), VARIED.items())
def test_a_field_that_varies_alone_misses(name: str, value: Any) -> None:
    assert named(BASE) != named(BASE | {name: value})


@pytest.mark.parametrize("name", [name for name in VARIED if name not in BASE])
def test_a_field_that_is_null_misses_where_it_is_absent(name: str) -> None:
    """A null may mean something to a server; to guess is not our part."""
    assert named(BASE) != named(BASE | {name: None})


@pytest.mark.parametrize(("name", "value"), VARIED.items())
def test_two_values_of_one_field_miss_each_other(name: str, value: Any) -> None:
    other = {"max_tokens": 8, "max_completion_tokens": 8, "n": 3, "model": "third"}.get(name, "y")
    assert named(BASE | {name: value}) != named(BASE | {name: other})


def test_every_field_makes_a_key_of_its_own() -> None:
    names = {named(BASE | {name: value}) for name, value in VARIED.items()}
    assert len(VARIED) == len(names)


@pytest.mark.parametrize(
    ("what", "messages"),
    [
        ("another question", [BASE["messages"][0], {"role": "user", "content": "question"}]),
        ("another system text", [{"role": "system", "content": "Be long."}, BASE["messages"][1]]),
        ("no system text", BASE["messages"][1:]),
        ("an earlier turn", [*BASE["messages"], {"role": "assistant", "content": "a"}]),
        ("another order", BASE["messages"][::-1]),
        ("another role", [{**BASE["messages"][0], "role": "developer"}, BASE["messages"][1]]),
        ("a name", [BASE["messages"][0], {**BASE["messages"][1], "name": "n"}]),
        ("parts", [BASE["messages"][0], {"role": "user", "content": PARTS}]),
        ("a blank more", [BASE["messages"][0], {"role": "user", "content": "Question "}]),
    ],
)  # fmt: skip
def test_other_messages_miss(what: str, messages: list[Any]) -> None:
    assert named(BASE) != named(BASE | {"messages": messages})


def test_an_omitted_temperature_is_not_zero() -> None:
    seeded = {name: value for name, value in BASE.items() if name != "temperature"} | {"seed": 1}
    assert named(seeded) != named(seeded | {"temperature": 0})


@pytest.mark.parametrize(
    "transport",
    [
        {"stream": True},
        {"stream": False},
        {"stream": None},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream_options": None},
    ],
)
def test_how_an_answer_travels_does_not_matter(transport: dict[str, Any]) -> None:
    assert named(BASE) == named(BASE | transport)


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("tenant", {"tenant": "evil"}),
        ("template", {"template": "plain@1+b"}),
        ("cap", {"cap": 511}),
        ("no cap", {"cap": None}),
        ("public name", {"route": replace(ROUTE, name="x")}),
        ("served model", {"route": replace(ROUTE, model="x")}),
        ("revision", {"route": replace(ROUTE, revision="r2")}),
        ("serving hash", {"route": replace(ROUTE, serving_hash="s2")}),
        ("upstream", {"route": replace(ROUTE, upstream=replace(ROUTE.upstream, name="x"))}),
    ],
)
def test_what_stands_around_a_request_is_part_of_its_key(what: str, changed: Any) -> None:
    assert named(BASE) != named(BASE, **changed)


def test_the_parts_of_a_key_cannot_be_moved_into_each_other() -> None:
    assert named(BASE, tenant='a","b') != named(BASE, tenant="a", template='b","plain@1+a')
    assert named(BASE | {"x": "1"}) != named(BASE | {"x": 1})
    assert named(BASE | {"a": 1, "b": 2}) != named(BASE | {"a": 2, "b": 1})


def test_the_order_inside_a_field_matters_since_prompts_follow_it() -> None:
    parameters = TOOL["function"]["parameters"]  # type: ignore[index]
    turned = dict(reversed(parameters.items()))
    other = {"type": "function", "function": {"name": "f", "parameters": turned}}
    assert named(BASE | {"tools": [TOOL]}) != named(BASE | {"tools": [other]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
extra_fields = st.dictionaries(st.text(max_size=4).map(lambda name: "x" + name), json_values)


@given(extra_fields, st.randoms(use_true_random=False), st.booleans(), st.integers(0, 3))
def test_a_key_is_a_function_of_the_request_and_not_of_its_spelling(
    extra: dict[str, Any], shuffle: random.Random, ascii_only: bool, indent: int
) -> None:
    fields = BASE | extra
    order = list(fields)
    shuffle.shuffle(order)
    turned = {name: fields[name] for name in order}
    text = json.dumps(turned, ensure_ascii=ascii_only, indent=indent or None)
    again = parse(text.encode("utf-8", "surrogatepass"))
    assert named(fields) == key(again, ROUTE, "acme", "plain@1+a", 512)


def told_apart(value: Any) -> str:
    """A text in which two JSON values are equal only if no server can tell them apart."""
    return json.dumps(value)


@given(extra_fields, extra_fields)
def test_requests_that_differ_have_keys_that_differ(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    same = told_apart(dict(sorted(one.items()))) == told_apart(dict(sorted(other.items())))
    assert same is (named(BASE | one) == named(BASE | other))


def test_a_key_says_nothing_about_the_request() -> None:
    name = named(BASE)
    assert 64 == len(name)
    assert not name.strip("0123456789abcdef")


counts = st.none() | st.integers(0, 10**9)
entries = st.builds(
    Entry, st.integers(0, 2**40), counts, counts, st.binary(), st.binary(), st.binary()
)


@given(entries)
def test_an_entry_is_read_back_as_it_was_written(entry: Entry) -> None:
    assert entry == decode(encode(entry))


WHOLE = encode(Entry(1_800_000_000, 5, None, b'{"a":1}', b"data: {}\n\n", b"data: u\n\n"))


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_an_entry_that_is_cut_anywhere_is_none(size: int) -> None:
    assert decode(WHOLE[:size]) is None


def test_an_entry_with_something_behind_it_is_none() -> None:
    assert decode(WHOLE + b"x") is None


@pytest.mark.parametrize("at", range(3 + 16))
def test_an_entry_whose_head_changed_is_none(at: int) -> None:
    for bit in range(8):
        changed = bytearray(WHOLE)
        changed[at] ^= 1 << bit
        assert decode(bytes(changed)) is None


@given(st.binary() | st.binary().map(lambda rest: b"nf1" + rest))
def test_garbage_is_none(value: bytes) -> None:
    assert decode(value) is None


@pytest.mark.parametrize(
    "facts",
    [
        b"", b"{", b"null", b"[]", b"[1,2]", b"[1,2,3,4]", b'["1",2,3]', b'[1,"2",3]',
        b"[1.5,2,3]", b"[true,2,3]", b"[Infinity,2,3]", b"[NaN,2,3]", b"[null,2,3]", b"[1,[],3]",
        b'{"a":1}',
        b"[" * 100_000, b"\xff",
    ],
)  # fmt: skip
def test_an_entry_with_other_facts_is_none(facts: bytes) -> None:
    head = b"nf1" + b"".join(len(part).to_bytes(4, "little") for part in (facts, b"a", b"b", b""))
    assert decode(head + facts + b"ab") is None


DETERMINISTIC = parse(json.dumps(BASE).encode())
CREATIVE = parse(json.dumps(BASE | {"temperature": 1}).encode())


@pytest.mark.parametrize(
    ("expected", "asked", "cache_control"),
    [
        (Policy(read=True, keep=True), "", ""),
        (Policy(read=True, keep=True), "", "max-age=60, no-transform"),
        (Policy(read=False, keep=True), "", "no-cache"),
        (Policy(read=False, keep=False), "", "no-store"),
        (Policy(read=False, keep=False), "", "no-cache, no-store"),
        (Policy(read=False, keep=False), "", "max-age=0,NO-STORE"),
        (Policy(read=False, keep=True), "use", " No-Cache "),
    ],
)
def test_cache_control_is_obeyed(expected: Policy, asked: str, cache_control: str) -> None:
    assert expected == policy(DETERMINISTIC, asked, cache_control)


@pytest.mark.parametrize(
    ("used", "asked"), [(False, ""), (True, "use"), (True, " USE "), (False, "no"), (False, "1")]
)
def test_an_answer_that_may_differ_is_kept_only_when_a_header_asks(used: bool, asked: str) -> None:
    assert Policy(read=used, keep=used) == policy(CREATIVE, asked, "")
