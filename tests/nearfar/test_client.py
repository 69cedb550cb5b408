"""The chat client, against a fake edge over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes import sample
from fakes.http_edge import HttpEdge, serving
from nearfar import exchange
from nearfar.client import Answer, Question, ask
from nearfar.errors import BadInput, Missing, NearfarError, Refused
from nearfar.exchange import Edge

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def fake() -> Iterator[HttpEdge]:
    with serving(HttpEdge(stream=sample.stream())) as edge:
        yield edge


def ask_it(fake: HttpEdge, *, trace: bool = False, pieces: list[str] | None = None) -> Answer:
    edge = Edge(fake.endpoint, fake.key("chat", "trace"))
    on_text = (lambda _: None) if pieces is None else pieces.append
    return ask(edge, Question("mock", HELLO, trace=trace), on_text)


def test_pieces_are_given_as_they_come_and_make_the_whole(fake: HttpEdge) -> None:
    pieces: list[str] = []
    answer = ask_it(fake, pieces=pieces)
    assert ["Hello", " you"] == pieces
    assert "Hello you" == answer.text
    assert "stop" == answer.finish_reason
    assert {"prompt_tokens": 3, "completion_tokens": 2} == answer.usage
    assert ("miss", "req_fake") == (answer.cache, answer.request_id)


def test_fields_that_were_not_set_are_not_sent(fake: HttpEdge) -> None:
    ask_it(fake)
    headers, body = fake.asked[0]
    assert {"model", "messages", "stream", "stream_options"} == set(body)
    assert "x-nearfar-trace" not in headers


def test_a_trace_is_asked_for_by_a_header(fake: HttpEdge) -> None:
    fake.stream = sample.stream(record=sample.miss())
    answer = ask_it(fake, trace=True)
    assert "1" == fake.asked[0][0]["x-nearfar-trace"]
    assert answer.record is not None
    assert "miss" == answer.record.value("cache")


def test_the_clients_instants_follow_each_other(fake: HttpEdge) -> None:
    lane = ask_it(fake).client
    instants = [lane.connected_ms, lane.first_byte_ms, lane.first_content_ms, lane.end_ms]
    seen = [instant for instant in instants if instant is not None]
    assert 4 == len(seen)
    assert sorted(seen) == seen
    assert 0 < seen[0]


def test_a_plain_connection_has_no_instant_for_tls(fake: HttpEdge) -> None:
    fake.stream = sample.stream(record=sample.miss())
    record = ask_it(fake, trace=True).record
    assert record is not None
    assert record.value("client.tls_ms") is None
    assert "the endpoint has no TLS" == record.why_not("client.tls_ms")


def test_an_empty_delta_is_no_content(fake: HttpEdge) -> None:
    fake.stream = sample.delta("") + sample.END + sample.DONE
    assert ask_it(fake).client.first_content_ms is None


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "tool_calls"])
def test_reasoning_and_tool_calls_are_content(fake: HttpEdge, field: str) -> None:
    fake.stream = sample.delta("", **{field: "x"}) + sample.END + sample.DONE
    assert ask_it(fake).client.first_content_ms is not None


def test_a_stream_that_breaks_off_is_no_answer(fake: HttpEdge) -> None:
    fake.stream = sample.delta("Hello")
    with pytest.raises(Missing, match="broke off"):
        ask_it(fake)


def test_an_error_in_the_stream_is_told(fake: HttpEdge) -> None:
    fake.stream = sample.delta("He") + sample.chunk(error={"message": "gone", "code": "broke"})
    with pytest.raises(Refused, match="gone") as caught:
        ask_it(fake)
    assert "broke" == caught.value.code


def test_a_refused_key_is_told_with_the_next_step(fake: HttpEdge) -> None:
    with pytest.raises(Refused) as caught:
        ask(Edge(fake.endpoint, "nf_wrong.key"), Question("mock", HELLO), print)
    assert (401, "invalid_api_key") == (caught.value.status, caught.value.code)
    assert "--api-key" in caught.value.next_step
    assert "nf_wrong" not in str(caught.value)


def test_an_error_that_is_not_the_edges_is_told_by_its_status(fake: HttpEdge) -> None:
    fake.status, fake.stream = 502, b"<html>"
    with pytest.raises(Refused, match="answered 502"):
        ask_it(fake)


def test_what_is_no_chat_stream_is_told(fake: HttpEdge) -> None:
    fake.stream = b"data: <html>\n\n"
    with pytest.raises(NearfarError, match="is not a chat stream"):
        ask_it(fake)


def test_a_record_of_another_version_is_told(fake: HttpEdge) -> None:
    fake.stream = sample.stream(record=sample.miss() | {"schema": "nearfar.record/9"})
    with pytest.raises(NearfarError, match=r"nearfar\.record/9"):
        ask_it(fake, trace=True)


def test_an_endpoint_where_nobody_listens_is_missing() -> None:
    with pytest.raises(Missing, match="Nothing answers"):
        ask(Edge("http://127.0.0.1:1", "k"), Question("mock", HELLO), print)


def test_an_endpoint_must_be_a_web_address() -> None:
    with pytest.raises(BadInput, match="not a web address"):
        Edge("localhost:3000", "k")


def test_an_endpoint_may_end_in_v1() -> None:
    assert "http://host/v1/models" == Edge("http://host/v1/", "k").url("/v1/models")
    assert "http://host/v1/models" == Edge("http://host", "k").url("/v1/models")


def test_a_key_does_not_stand_in_the_text_of_an_edge() -> None:
    assert "hush" not in repr(Edge("http://host", "hush"))


def test_models_are_listed_by_name(fake: HttpEdge) -> None:
    fake.models = ("a", "b")
    assert ["a", "b"] == exchange.models(Edge(fake.endpoint, fake.key("chat")))
