"""The unmodified `openai` client against the edge, as a user of it would write."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from fakes.script import METRICS, Script, error_script, http_date_in
from stack.answers import valid
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
CALLING = Script(tool_calls=(("weather", '{"city": "Graz"}'), ("time", '{"zone": "CET"}')))


def test_an_answer_comes_whole(edge: Edge, caller: Caller, calls: Calls) -> None:
    with caller.openai(edge) as client:
        answer = client.chat.completions.create(**caller.body("grüß dich, welt"))
    assert f"{caller.marker} grüß dich, welt" == answer.choices[0].message.content
    assert "stop" == answer.choices[0].finish_reason
    assert answer.usage is not None
    assert (4, 4, 8) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
        answer.usage.total_tokens,
    )
    assert 1 == len(calls.seen)


def test_an_answer_comes_streamed_without_usage(edge: Edge, caller: Caller) -> None:
    with caller.openai(edge) as client:
        chunks = list(client.chat.completions.create(**caller.body(), stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert f"{caller.marker} one two three" == text
    assert [None] * len(chunks) == [chunk.usage for chunk in chunks]
    assert "stop" == chunks[-1].choices[0].finish_reason


def test_the_usage_comes_last_when_it_is_asked_for(edge: Edge, caller: Caller) -> None:
    with caller.openai(edge) as client:
        chunks = list(
            client.chat.completions.create(
                **caller.body(), stream=True, stream_options={"include_usage": True}
            )
        )
    assert [] == chunks[-1].choices
    assert chunks[-1].usage is not None
    assert 4 == chunks[-1].usage.completion_tokens


def test_tool_calls_come_whole_and_streamed(edge: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(CALLING)
    body: Any = caller.body("call", tools=[WEATHER])
    with caller.openai(edge) as client:
        whole = client.chat.completions.create(**body)
        again: Any = caller.body("call again", tools=[WEATHER])
        with client.chat.completions.stream(**again) as stream:
            streamed = stream.get_final_completion()
    for answer in (whole, streamed):
        found = answer.choices[0].message.tool_calls or []
        named = [(call.function.name, call.function.arguments) for call in found]
        assert list(CALLING.tool_calls) == named
        assert "tool_calls" == answer.choices[0].finish_reason


@pytest.mark.parametrize("streamed", [False, True])
def test_two_choices_stay_apart(edge: Edge, caller: Caller, *, streamed: bool) -> None:
    body: Any = caller.body("a b", n=2)
    texts = {0: "", 1: ""}
    with caller.openai(edge) as client:
        if streamed:
            for chunk in client.chat.completions.create(**body, stream=True):
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
        else:
            for whole in client.chat.completions.create(**body).choices:
                texts[whole.index] = whole.message.content or ""
    assert {0: f"{caller.marker} a b", 1: f"{caller.marker}(1) a(1) b(1)"} == texts


def test_the_models_of_the_key_are_listed(edge: Edge, caller: Caller) -> None:
    with caller.openai(edge) as client:
        assert {"mock", "closed", "nowhere"} == {model.id for model in client.models.list()}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_record_comes_back_to_a_client_that_may_see_it(
    edge: Edge, caller: Caller, calls: Calls, *, streamed: bool
) -> None:
    calls.answer(Script(metrics=METRICS))
    body: Any = caller.body() | {"extra_headers": {"x-nearfar-trace": "1"}}
    with caller.openai(edge) as client:
        if streamed:
            last = list(client.chat.completions.create(**body, stream=True))[-1]
            assert [] == last.choices
            record = (last.model_extra or {})["nearfar"]
        else:
            record = (client.chat.completions.create(**body).model_extra or {})["nearfar"]
    valid(record)
    assert 1 == record["trips"]["far"]
    assert METRICS == record["engine"]
    assert {"input": 4, "output": 4} == record["tokens"]


def test_a_key_without_the_permission_gets_no_record(edge: Edge, caller: Caller) -> None:
    body: Any = caller.body()
    with caller.other(permissions=("chat",)).openai(edge) as client:
        with pytest.raises(openai.PermissionDeniedError):
            client.chat.completions.create(**body, extra_headers={"x-nearfar-trace": "1"})
        assert "nearfar" not in (client.chat.completions.create(**body).model_extra or {})


class TestErrors:
    def test_a_wrong_key_is_an_authentication_error(self, edge: Edge, caller: Caller) -> None:
        wrong = caller.other(secret="another-secret-of-forty-characters-000000")
        with wrong.openai(edge) as client, pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(**caller.body())
        assert "invalid_api_key" == caught.value.code
        assert caught.value.response.headers["www-authenticate"].startswith("Bearer")

    def test_an_expired_key_is_an_authentication_error(self, edge: Edge, caller: Caller) -> None:
        late = caller.other(valid_s=-5)
        with late.openai(edge) as client, pytest.raises(openai.AuthenticationError):
            client.models.list()

    def test_an_unknown_model_is_not_found(self, edge: Edge, caller: Caller) -> None:
        body: Any = caller.body() | {"model": "unheard-of"}
        with caller.openai(edge) as client, pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(**body)
        assert "model_not_found" == caught.value.code

    def test_a_made_up_role_is_a_bad_request(self, edge: Edge, caller: Caller) -> None:
        messages: Any = [{"role": "wizard", "content": caller.marker}]
        with caller.openai(edge) as client, pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="mock", messages=messages)
        assert "messages[0].role" == caught.value.param

    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_refusal_of_the_request_itself_is_passed_on(
        self, edge: Edge, caller: Caller, calls: Calls, *, streamed: bool
    ) -> None:
        calls.answer(error_script(400, "top_k must be at least -1"))
        with caller.openai(edge) as client, pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**caller.body(), stream=streamed)
        assert "top_k must be at least -1" in caught.value.message

    @pytest.mark.fault(18)
    @pytest.mark.parametrize(
        ("sent", "least", "most"), [("7", 7, 7), ("date", 20, 31), ("", 1, 1), ("0", 1, 1)]
    )
    def test_a_full_upstream_is_a_rate_limit_with_whole_seconds(
        self, edge: Edge, caller: Caller, calls: Calls, sent: str, least: int, most: int
    ) -> None:
        value = http_date_in(30) if sent == "date" else sent
        head = (("retry-after", value),) if value else ()
        calls.answer(error_script(429, headers=head))
        for expected in (1, 2):  # never cached
            with caller.openai(edge) as client, pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(**caller.body())
            assert least <= int(caught.value.response.headers["retry-after"]) <= most
            assert expected == len(calls.seen)

    @pytest.mark.fault(24)
    def test_an_upstream_that_is_starting_is_a_503_that_says_when_to_come_back(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        """As an ingress says it that has nobody behind it: no Retry-After, no JSON."""
        calls.answer(Script(status=503, body=b"no available server\n"))
        with caller.openai(edge) as client, pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(**caller.body())
        assert 503 == caught.value.status_code
        assert 1 <= int(caught.value.response.headers["retry-after"])

    def test_an_error_in_the_stream_is_an_api_error(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(Script(end="error", end_after=2))
        texts: list[str] = []
        with caller.openai(edge) as client:
            chunks = client.chat.completions.create(**caller.body(), stream=True)
            with pytest.raises(openai.APIError) as caught:
                texts.extend(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert f"{caller.marker} one" == "".join(texts)
        assert "upstream_broke" == caught.value.code
        assert "EngineCore" not in str(caught.value)
