"""What a browser needs to read another origin's edge, through the whole stack and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import httpx
import pytest

from edge_frontend.limits import Limits
from fakes.script import error_script
from stack.caller import CHAT, TIMEOUT_S, Caller
from stack.calls import Calls
from stack.edges import Edge
from stack.whole import Whole

PAGE, OTHER = "https://app.example", "https://elsewhere.example"
ALLOW = "access-control-allow-origin"


@pytest.fixture(scope="module", params=[None, 1], ids=["reused", "fresh"])
def edge(whole: Whole, request: pytest.FixtureRequest) -> Edge:
    """An edge that one page may call, with instances that are kept and with new ones."""
    return whole.edge(reuse_count=request.param, origins=f"{PAGE},http://localhost:5173")


def send(
    edge: Edge, method: str, path: str = CHAT, origin: str = PAGE, **more: object
) -> httpx.Response:
    headers = {"origin": origin, **dict(_pairs(more.pop("headers", {})))}
    with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as session:
        return session.request(method, edge.url + path, headers=headers, **more)  # type: ignore[arg-type]


def _pairs(headers: object) -> Mapping[str, str]:
    assert isinstance(headers, dict)
    return headers


def preflight(edge: Edge, path: str = CHAT, origin: str = PAGE) -> httpx.Response:
    """As a browser sends it: no key, no body."""
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    return send(edge, "OPTIONS", path, origin, headers=asks)


def test_a_preflight_needs_no_key_and_says_what_may_be_sent(edge: Edge, calls: Calls) -> None:
    answer = preflight(edge)
    assert (204, b"") == (answer.status_code, answer.content)
    assert PAGE == answer.headers[ALLOW]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert {"authorization", "content-type"} <= set(
        answer.headers["access-control-allow-headers"].split(", ")
    )
    assert not calls.seen


def test_preflights_use_nothing_of_a_limit(edge: Edge, caller: Caller, calls: Calls) -> None:
    who = replace(caller, limits=Limits(rpm=2))
    for _ in range(20):
        assert 204 == preflight(edge).status_code
    statuses = [who.post(edge, who.body(f"request {n}"), origin=PAGE).status_code for n in range(3)]
    assert [200, 200, 429] == statuses
    assert 204 == preflight(edge).status_code, "and none is refused at the limit"


@pytest.mark.parametrize("stream", [False, True])
def test_a_page_may_read_an_answer_and_what_it_says_of_itself(
    edge: Edge, caller: Caller, stream: bool
) -> None:
    who = replace(caller, limits=Limits(rpm=9))
    for cache in ("miss", "hit"):
        answer = who.post(edge, who.body(f"{stream}", stream=stream), origin=PAGE)
        assert (200, cache, PAGE) == (
            answer.status_code, answer.headers["x-cache"], answer.headers[ALLOW],
        )  # fmt: skip
        shown = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"x-request-id", "retry-after", "x-ratelimit-remaining-requests"} <= shown
        assert "origin" in answer.headers["vary"]


class TestErrors:
    """A page that cannot read an error sees a failed network instead."""

    def check(self, answer: httpx.Response, status: int) -> None:
        assert status == answer.status_code
        assert PAGE == answer.headers[ALLOW]
        assert "retry-after" in answer.headers["access-control-expose-headers"]
        assert "error" in answer.json()

    def test_without_a_key(self, edge: Edge) -> None:
        self.check(send(edge, "POST", json={}), 401)

    def test_of_a_path_or_method_that_is_not_there(self, edge: Edge) -> None:
        self.check(send(edge, "GET", "/nothing"), 404)
        self.check(send(edge, "DELETE"), 405)

    def test_of_a_request_that_is_wrong_or_too_large(self, edge: Edge, caller: Caller) -> None:
        self.check(caller.post(edge, b"{", origin=PAGE), 400)
        self.check(caller.post(edge, b"x" * 1_000_001, origin=PAGE), 413)

    def test_of_the_edges_limit_and_of_the_gates(self, edge: Edge, caller: Caller) -> None:
        none = replace(caller, limits=Limits(rpm=0))
        self.check(none.post(edge, none.body(), origin=PAGE), 429)
        spent = replace(caller.other(), limits=Limits(month=1))
        self.check(spent.post(edge, spent.body("long", max_tokens=99), origin=PAGE), 429)

    def test_of_the_model_server(self, edge: Edge, caller: Caller, calls: Calls) -> None:
        calls.answer(error_script(500))
        self.check(caller.post(edge, caller.body(), origin=PAGE), 502)


@pytest.mark.parametrize("origin", [OTHER, f"{PAGE}.evil.example", "http://app.example", "null"])
def test_another_origin_gets_no_word_of_permission(edge: Edge, caller: Caller, origin: str) -> None:
    answers = [
        preflight(edge, origin=origin),
        caller.post(edge, caller.body(), origin=origin),
        send(edge, "POST", origin=origin, json={}),
    ]
    assert [204, 200, 401] == [answer.status_code for answer in answers]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert "origin" in answer.headers["vary"], "no cache may give one page's answer to another"


def test_without_origins_nothing_is_said(first: Edge, caller: Caller) -> None:
    for answer in (preflight(first), caller.post(first, caller.body(), origin=PAGE)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]
