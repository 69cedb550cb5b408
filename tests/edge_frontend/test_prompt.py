from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend import prompt
from edge_frontend.errors import ContextTooLong
from edge_frontend.request import parse
from edge_frontend.routes import Route, Upstream
from edge_frontend.templates import TEMPLATES, Template, load

PLAIN = TEMPLATES["plain@1"]
WRAPPING = Template("w@1", "w@1+0", "Rules.", "<q>", "</q>")
FOLDER = Path(__file__).parents[2] / "edge-frontend/templates"


def route(context_tokens: int = 0) -> Route:
    return Route("small", Upstream("gpu", "http", "gpu", ""), "served", "r", context_tokens, "s")


def assembled(
    messages: list[Any], template: Template = PLAIN, cap: int | None = None, **fields: Any
) -> dict[str, Any]:
    request = parse(json.dumps({"model": "small", "messages": messages} | fields).encode())
    return prompt.assemble(request, route(), template, cap)


def cap(text: str, context: int, template: Template = PLAIN, **fields: Any) -> int | None:
    messages = [{"role": "user", "content": text}]
    request = parse(json.dumps({"model": "small", "messages": messages} | fields).encode())
    return prompt.output_cap(request, route(context), template, 512)


def limit(name: str, tokens: int) -> dict[str, Any]:
    return {name: tokens}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_the_plain_template_leaves_the_conversation_as_it_is() -> None:
    messages = [
        {"role": "system", "content": "s"},
        user("q"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        user([{"type": "image_url", "image_url": {"url": "data:"}}]),
    ]
    assert messages == assembled(messages)["messages"]


def test_a_developer_becomes_the_system() -> None:
    message = {"role": "developer", "content": [{"type": "text", "text": "x"}], "name": "n"}
    assert [{**message, "role": "system"}, user("q")] == assembled([message, user("q")])["messages"]


def test_a_templates_system_text_comes_first_and_the_clients_own_stays_under_it() -> None:
    own = [{"role": "system", "content": "mine"}, {"role": "developer", "content": "too"}]
    sent = assembled([*own, user("q")], WRAPPING)["messages"]
    assert [("system", "Rules.\n\nmine\n\ntoo"), ("user", "<q>q</q>")] == [
        (m["role"], m["content"]) for m in sent
    ]


def test_the_clients_own_system_text_stands_under_the_rules_heading() -> None:
    request = parse(
        json.dumps({"model": "small", "messages": [{"role": "system", "content": "mine"}]}).encode()
    )
    sent = prompt.assemble(request, route(), WRAPPING, 5, "Of the application:")["messages"]
    assert ["Rules.\n\nOf the application:\n\nmine"] == [m["content"] for m in sent]


def test_only_user_turns_are_wrapped() -> None:
    turns = [user("a"), {"role": "assistant", "content": "b"}, user("c")]
    sent = assembled(turns, WRAPPING)["messages"]
    assert ["Rules.", "<q>a</q>", "b", "<q>c</q>"] == [message["content"] for message in sent]


def test_a_user_turn_of_parts_is_wrapped_by_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    sent = assembled([user([image])], WRAPPING)["messages"][1]["content"]
    before, after = {"type": "text", "text": "<q>"}, {"type": "text", "text": "</q>"}
    assert [before, image, after] == sent
    only_before = Template("b@1", "b@1+0", "", "<q>", "")
    assert [before, image] == assembled([user([image])], only_before)["messages"][0]["content"]


def test_the_request_that_came_is_not_changed() -> None:
    request = parse(json.dumps({"model": "small", "messages": [user("q")]}).encode())
    before = json.dumps(request.fields)
    prompt.assemble(request, route(), WRAPPING, 5)
    assert before == json.dumps(request.fields)


def test_an_answer_is_always_asked_for_as_a_stream_with_its_usage() -> None:
    for fields in ({}, {"stream": False}, {"stream": True}, {"stream": None}):
        sent = assembled([user("q")], **fields)
        assert (True, {"include_usage": True}) == (sent["stream"], sent["stream_options"])
    options = {"include_usage": False, "continuous_usage_stats": True}
    sent = assembled([user("q")], stream=True, stream_options=options)
    assert options | {"include_usage": True} == sent["stream_options"]


@pytest.mark.parametrize("name", prompt.NEVER_STREAMED)
def test_what_a_server_gives_in_one_body_is_asked_for_as_one(name: str) -> None:
    field: dict[str, Any] = {name: 1}
    for fields in (field, {**field, "stream": False}):
        sent = assembled([user("q")], **fields)
        assert (False, False) == (sent["stream"], "stream_options" in sent)
    assert assembled([user("q")], **{**field, "stream": True})["stream"] is True
    off: dict[str, Any] = {name: None}
    assert assembled([user("q")], **off)["stream"] is True


def test_the_model_is_named_as_the_server_knows_it() -> None:
    assert "served" == assembled([user("q")])["model"]


def test_the_cap_is_filled_in_only_where_there_is_one() -> None:
    assert "max_tokens" not in assembled([user("q")])
    assert 7 == assembled([user("q")], cap=7, max_tokens=None)["max_tokens"]


def test_unknown_fields_are_passed_on_value_for_value() -> None:
    fields: dict[str, Any] = {
        "x_new": {"a": [1]},
        "n53": 2**53 + 1,
        "top_k": 40,
        "lone": "\ud800",
        "f": 1e-7,
    }
    sent = json.loads(prompt.dump(assembled([user("q")], **fields)))
    assert fields == {name: sent[name] for name in fields}


@given(st.text() | st.text(st.characters(categories=["Cs"])))
def test_any_text_can_be_sent(text: str) -> None:
    data = prompt.dump(assembled([user(text)]))
    assert data.isascii()
    spelled = json.loads(json.dumps(text))  # two halves of a pair beside each other become one
    assert spelled == json.loads(data)["messages"][0]["content"]


def test_without_a_limit_of_the_client_the_operators_cap_holds() -> None:
    assert 512 == cap("q", 0)
    assert 512 == cap("q", 2048)
    assert 512 == cap("q", 2048, max_tokens=None)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_the_client_stands(name: str) -> None:
    assert cap("q", 2048, **limit(name, 900)) is None


def test_the_cap_leaves_room_for_the_messages() -> None:
    # 300 bytes may be 100 tokens, and a message costs four.
    assert 200 - 104 == cap("x" * 300, 200)
    assert 1 == cap("x" * 600, 200)


def test_the_templates_own_text_takes_room_too() -> None:
    plain = cap("x" * 300, 200)
    assert plain is not None
    assert plain > (cap("x" * 300, 200, WRAPPING) or 0) > 0


def test_what_cannot_fit_is_refused_with_the_figures() -> None:
    with pytest.raises(ContextTooLong) as caught:
        cap("x" * 6_000, 1_000)
    assert (400, "context_length_exceeded") == (caught.value.status, caught.value.code)
    assert "messages" == caught.value.param
    assert "1004 tokens" in caught.value.message
    assert "1000 tokens" in caught.value.message
    assert "xxx" not in caught.value.message


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_messages_and_output_that_cannot_fit_together_are_refused(name: str) -> None:
    with pytest.raises(ContextTooLong) as caught:
        cap("q", 1_000, **limit(name, 997))
    assert "997" in caught.value.message
    assert cap("q", 1_000, **limit(name, 996)) is None


def test_without_a_known_context_nothing_is_refused() -> None:
    assert 512 == cap("x" * 600_000, 0)


@pytest.mark.parametrize(
    "text",
    [
        "The request path lives at the edge, and inference lives far away on a rented GPU. ",
        "Запрос проходит через границу сети, а модель работает далеко на арендованной карте. ",
        "请求在边缘处理，而模型在很远的租用显卡上运行。",
    ],
)
def test_a_text_that_may_fit_is_not_refused_in_any_language(text: str) -> None:
    """The bound is in characters: a character of Cyrillic or Chinese has two or three bytes."""
    assert cap((text * 200)[:6_000], 1_005) is not None
    with pytest.raises(ContextTooLong):
        cap((text * 300)[:6_006], 1_005)


def test_content_that_is_no_text_is_not_counted() -> None:
    image = {"type": "image_url", "image_url": {"url": "x" * 100_000}}
    assert 4 == prompt.least_tokens([user([image])])
    assert 4 == prompt.least_tokens([{"role": "assistant", "content": None}])
    assert 5 == prompt.least_tokens([user([{"type": "text", "text": "x" * 6}, image])])


def test_the_shipped_templates_are_read_from_their_files() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(TEMPLATES)
    assert ("", "", "") == (PLAIN.system, PLAIN.before, PLAIN.after)
    assert all(name == template.name for name, template in TEMPLATES.items())


def test_a_template_that_is_edited_is_another_version(tmp_path: Path) -> None:
    file = tmp_path / "a@1.toml"
    file.write_text('system = "one"\nuser = "Q: {text}!"\n')
    one = load(tmp_path)["a@1"]
    file.write_text('system = "two"\nuser = "Q: {text}!"\n')
    assert ("a@1", "one", "Q: ", "!") == (one.name, one.system, one.before, one.after)
    assert one.version.startswith("a@1+")
    assert one.version != load(tmp_path)["a@1"].version


@pytest.mark.parametrize(
    "content", ['user = "no place"', 'user = "{text}{text}"', 'usr = "{text}"']
)
def test_a_template_that_is_wrong_stops_the_build_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad@1.toml").write_text(content)
    with pytest.raises(ValueError, match=r"bad@1\.toml"):
        load(tmp_path)
