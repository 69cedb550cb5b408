"""Which web pages may call, and that they may read errors too."""

from __future__ import annotations

from typing import Any

import pytest

from edge_frontend import cors, headers
from fakes.edge import Edge, Response, Scripted, chat, run

PAGE = "https://app.test"
ASKS = {"origin": PAGE, "access-control-request-method": "POST"}


def asked(origins: str = PAGE, **request: Any) -> Response:
    edge = Edge.with_store(origins=origins)
    response = run(edge.ask(**request))
    assert not edge.upstream.calls or request.get("method", "POST") == "POST"
    return response


def allowed(response: Response) -> str | None:
    return response.headers.get("access-control-allow-origin")


def test_a_preflight_needs_no_key_and_says_what_the_page_may_send() -> None:
    response = asked(method="OPTIONS", key=None, headers=ASKS)
    assert (204, b"") == (response.status, response.body)
    assert (PAGE, "origin") == (allowed(response), response.headers["vary"])
    assert "POST, OPTIONS" == response.headers["access-control-allow-methods"]
    assert str(cors.MAX_AGE_S) == response.headers["access-control-max-age"]
    may_send = set(response.headers["access-control-allow-headers"].split(", "))
    never = {"origin", "content-length", "x-forwarded-for", "access-control-request-method"}
    assert set(headers.READ) - never == may_send - {"content-type"}


def test_a_preflight_asks_no_store_and_no_server_and_writes_no_line() -> None:
    edge = Edge.with_store(origins=PAGE, gate_secret="g" * 32)
    run(edge.ask(method="OPTIONS", key=None, headers=ASKS))
    assert edge.store is not None
    assert ([], [], []) == (edge.store.batches, edge.upstream.calls, edge.logs)


@pytest.mark.parametrize(
    "request_of",
    [
        {"body": chat()},
        {"body": chat(stream=True)},
        {"body": b"{"},
        {"body": chat(), "key": None},
        {"body": chat(), "path": "/nothing"},
        {"method": "DELETE"},
        {"method": "GET", "path": "/v1/models"},
    ],
)
def test_every_reply_may_be_read_by_the_page_errors_too(request_of: dict[str, Any]) -> None:
    response = asked(**request_of, headers={"origin": PAGE})
    assert PAGE == allowed(response)
    shown = set(response.headers["access-control-expose-headers"].split(", "))
    assert {"x-request-id", "x-cache", "retry-after", *headers.PASSED} <= shown
    assert shown <= set(headers.WRITTEN)


def test_a_refusal_of_the_model_server_may_be_read_too() -> None:
    edge = Edge.with_store(origins=PAGE)
    edge.upstream.usual = Scripted([b""], status=429, headers=(("retry-after", b"7"),))
    response = run(edge.ask(chat(), headers={"origin": PAGE}))
    assert (429, PAGE, "7") == (response.status, allowed(response), response.headers["retry-after"])


@pytest.mark.parametrize(
    "origin",
    ["https://evil.test", "https://app.test.evil.test", "http://app.test", "null", PAGE * 2],
)
def test_another_page_gets_nothing(origin: str) -> None:
    for request in ({"body": chat()}, {"method": "OPTIONS", "key": None}):
        asks: dict[str, Any] = {**ASKS, "origin": origin}
        response = asked(**request, headers=asks)
        assert allowed(response) is None
        assert "access-control-expose-headers" not in response.headers
        assert "origin" == response.headers["vary"], "a cache must not give it to another page"


def test_one_of_several_pages_is_named_alone() -> None:
    several = f"https://first.test, {PAGE}"
    assert PAGE == allowed(asked(several, body=chat(), headers={"origin": PAGE}))


def test_any_page_may_be_allowed() -> None:
    response = asked("*", body=chat(), headers={"origin": "https://any.test"})
    assert "*" == allowed(response)


def test_without_origins_nothing_of_it_is_said() -> None:
    for request in ({"body": chat()}, {"method": "OPTIONS", "key": None}):
        edge = Edge.with_store()
        response = run(edge.ask(**request, headers=ASKS))
        said = {
            name for name in response.headers if name.startswith("access-control") or name == "vary"
        }
        assert not said
