"""The last step: which stage did not answer."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from fakes.http_edge import HttpEdge
from nearfar_infra.plugin.first_answer import FirstAnswer
from nearfar_infra.plugin.kinds import KindError

KIND = FirstAnswer()


def asked(edge: HttpEdge, **change: Any) -> dict[str, Any]:
    news = {
        "url": edge.endpoint,
        "apiKey": edge.key("chat"),
        "model": "mock",
        "deadlineSeconds": 0,
        **change,
    }
    inputs, problems = KIND.check(news)
    assert {} == dict(problems)
    return dict(inputs)


def stage(edge: HttpEdge, **change: Any) -> str:
    with pytest.raises(KindError) as caught:
        KIND.create(asked(edge, **change))
    return str(caught.value).partition("stage '")[2].partition("'")[0]


def test_an_answer_is_kept_with_its_request(edge: HttpEdge) -> None:
    made = KIND.create(asked(edge))
    assert "req_fake" == made.outputs["requestId"]
    assert 0 < made.outputs["milliseconds"]
    assert "mock" == edge.asked[0][1]["model"]


def test_a_name_that_is_not_there_is_the_stage_name(edge: HttpEdge) -> None:
    assert "name" == stage(edge, url="https://nowhere.invalid")


def test_a_closed_port_is_the_stage_connection(edge: HttpEdge) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert "connection" == stage(edge, url=f"http://127.0.0.1:{taken.getsockname()[1]}")


def test_a_server_without_tls_is_the_stage_tls(edge: HttpEdge) -> None:
    assert "TLS" == stage(edge, url=edge.endpoint.replace("http:", "https:"))


@pytest.mark.parametrize(
    ("status", "name"), [(401, "key"), (404, "model"), (503, "model server"), (502, "model server")]
)
def test_an_error_of_the_edge_is_the_stage_it_speaks_of(
    edge: HttpEdge, status: int, name: str
) -> None:
    edge.status, edge.stream = status, b'{"error": {"message": "no", "code": "x"}}'
    assert name == stage(edge)


def test_a_wrong_key_is_the_stage_key_and_is_not_tried_again(edge: HttpEdge) -> None:
    assert "key" == stage(edge, apiKey="nf_wrong.wrong", deadlineSeconds=60)
    assert 1 == len(edge.asked)


def test_an_answer_that_breaks_off_is_the_stage_answer(edge: HttpEdge) -> None:
    edge.stream = b""
    assert "answer" == stage(edge)


def test_the_key_is_registered_so_that_it_can_be_listed(edge: HttpEdge) -> None:
    KIND.create(asked(edge, operatorSecret=edge.secret))
    assert ["test"] == list(edge.registered)


def test_an_edge_that_answers_but_lists_no_key_is_told(
    edge: HttpEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = asked(edge, operatorSecret=edge.secret)
    monkeypatch.setattr(HttpEdge, "may", lambda self, header, permission: permission == "chat")
    with pytest.raises(KindError, match=r"did not list the key: .+ Next step: \w"):
        KIND.create(given)


def test_a_key_of_another_secret_is_told(edge: HttpEdge) -> None:
    with pytest.raises(KindError, match="not made with the operator's secret"):
        KIND.create(asked(edge, operatorSecret="x" * 40))


def test_no_message_shows_the_key(edge: HttpEdge) -> None:
    key = edge.key("chat")
    edge.status, edge.stream = 503, b'{"error": {"message": "no", "code": "x"}}'
    with pytest.raises(KindError) as caught:
        KIND.create(asked(edge, apiKey=key))
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"follows": ["other"]}, ("follows",)),
        ({"url": "https://other.example"}, ("url",)),
        ({"deadlineSeconds": 5}, ()),
    ],
)
def test_it_is_asked_again_when_what_it_follows_from_changed(
    edge: HttpEdge, change: dict[str, Any], again: tuple[str, ...]
) -> None:
    olds = asked(edge)
    assert again == KIND.diff(olds, olds, {**olds, **change}).properties
