"""What the gate answers, as a client sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edge_frontend import headers
from fakes.edge import Edge, Response, Scripted, chat, run, stream

SECRET = "g" * 32
LEFT = {name: str(number) for number, name in enumerate(sorted(headers.PASSED))}
CANARY = "canary of the gate"


def refusal(status: int, code: str, retry_after: str = "7") -> Scripted:
    error = {"message": CANARY, "type": "requests", "param": None, "code": code}
    head = [("content-type", b"application/json"), ("x-secret", b"canary")]
    head += [(name, value.encode()) for name, value in LEFT.items()]
    if retry_after:
        head.append(("retry-after", retry_after.encode()))
    return Scripted([json.dumps({"error": error}).encode()], status=status, headers=tuple(head))


def ask(answer: Scripted, *, gate: bool = True, **fields: Any) -> tuple[Edge, Response]:
    edge = Edge.with_store(**({"gate_secret": SECRET} if gate else {}))
    edge.upstream.enqueue(answer)
    return edge, run(edge.ask(chat(**fields)))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "code", ["rate_limit_exceeded", "parallel_limit_exceeded", "monthly_budget_exceeded"]
)
def test_a_limit_is_told_by_its_code_with_what_is_left(code: str, streamed: bool) -> None:
    edge, response = ask(refusal(429, code), stream=streamed)
    assert (429, code, "rate_limit_error") == (
        response.status, response.error["code"], response.error["type"],
    )  # fmt: skip
    assert "7" == response.headers["retry-after"]
    assert LEFT == {name: response.headers[name] for name in LEFT}
    assert CANARY not in response.body.decode()
    assert "x-secret" not in response.headers
    assert response.log is not None
    assert code == response.log["error"]
    assert edge.upstream.sources[0].closed
    assert "miss" == run(edge.ask(chat())).headers["x-cache"], "a refusal is never kept"


@pytest.mark.parametrize(
    ("given", "told"),
    [("1", "1"), ("0", "1"), ("1814400", "1814400"), ("9" * 30, str(31 * 86_400))],
)
def test_the_wait_for_a_months_budget_may_be_weeks(given: str, told: str) -> None:
    _, response = ask(refusal(429, "monthly_budget_exceeded", given))
    assert told == response.headers["retry-after"]


def test_a_429_that_is_not_the_gates_own_is_a_full_model_server() -> None:
    for answer in (refusal(429, "other"), Scripted([b"full"], status=429)):
        _, response = ask(answer)
        assert (429, "upstream_busy") == (response.status, response.error["code"])
        assert "retry-after" in response.headers


def test_an_overloaded_server_is_passed_on_with_its_wait() -> None:
    for code in ("overloaded", "limits_unavailable"):
        _, response = ask(refusal(503, code))
        assert (503, "upstream_busy", "7") == (
            response.status, response.error["code"], response.headers["retry-after"],
        )  # fmt: skip


def test_a_revoked_key_is_not_valid() -> None:
    _, response = ask(refusal(403, "key_revoked"))
    assert (401, "invalid_api_key") == (response.status, response.error["code"])
    assert "www-authenticate" in response.headers
    assert CANARY not in response.body.decode()


@pytest.mark.parametrize(
    ("status", "code"), [(401, "unauthorized"), (409, "grant_replayed"), (403, "other"), (404, "x")]
)
def test_what_is_between_edge_and_gate_never_looks_like_the_clients(status: int, code: str) -> None:
    _, response = ask(refusal(status, code))
    assert (502, "upstream_error") == (response.status, response.error["code"])
    assert "www-authenticate" not in response.headers
    assert CANARY not in response.body.decode()


def test_without_a_gate_its_codes_and_headers_mean_nothing() -> None:
    _, response = ask(refusal(403, "key_revoked"), gate=False)
    assert 502 == response.status
    _, response = ask(refusal(429, "monthly_budget_exceeded"), gate=False)
    assert "upstream_busy" == response.error["code"]
    assert not headers.PASSED & set(response.headers)


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_left_stands_on_a_good_answer_too(streamed: bool) -> None:
    head = [("content-type", b"text/event-stream"), ("x-other", b"1")]
    head += [(name, value.encode()) for name, value in LEFT.items()]
    edge, response = ask(Scripted(stream("x"), headers=tuple(head)), stream=streamed)
    assert LEFT == {name: response.headers[name] for name in LEFT}
    assert "x-other" not in response.headers
    hit = run(edge.ask(chat(stream=streamed)))
    assert "hit" == hit.headers["x-cache"]
    assert not headers.PASSED & set(hit.headers), "they were of another request"


def test_a_value_that_no_header_may_have_is_left_out() -> None:
    head = (
        ("content-type", b"text/event-stream"),
        ("x-ratelimit-limit-tokens", b"5"),
        ("x-ratelimit-limit-requests", b"\xff"),
    )
    _, response = ask(Scripted(stream("x"), headers=head))
    assert {"x-ratelimit-limit-tokens"} == headers.PASSED & set(response.headers)
