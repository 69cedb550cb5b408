"""A malformed request has few right answers, and everything else is told from them."""

from __future__ import annotations

import json

import pytest

from fuzz.cases import Case, Maker
from fuzz.values import ODD, Raw, written
from fuzz.verdict import CODES, judge
from fuzz.wire import Heard

CASE = Case(0, "k", b"POST", b"")
GONE = Case(0, "k", b"POST", b"", whole=False)
JSON = {"content-type": "application/json", "x-request-id": "req_1"}
ERROR = {"message": "m", "type": "t", "param": None, "code": "invalid_request"}


def body(**error: object) -> bytes:
    return json.dumps({"error": ERROR | error}).encode()


@pytest.mark.parametrize(
    ("case", "heard", "right"),
    [
        (CASE, Heard(400, JSON, body(), whole=True), True),
        (CASE, Heard(400, JSON, body(code="made_up"), whole=True), False),
        (CASE, Heard(400, JSON, body(more=1), whole=True), False),
        (CASE, Heard(400, JSON, b"{}", whole=True), False),
        (CASE, Heard(400, JSON | {"content-type": "text/html"}, body(), whole=True), False),
        (CASE, Heard(405, JSON, body(), whole=True), False),
        (CASE, Heard(500, JSON, body(), whole=True), False),
        (CASE, Heard(503, JSON, body(), whole=True), False),
        (CASE, Heard(200, JSON, b'{"choices":[]}', whole=True), True),
        (CASE, Heard(200, JSON, b'{"choices":[]}'), False),
        (GONE, Heard(200, JSON, b'{"choices":[]}'), True),
        (CASE, Heard(200, JSON, b"[]", whole=True), False),
        (
            CASE,
            Heard(200, JSON | {"content-type": "text/event-stream"}, b"data: 1\n\n", True),
            False,
        ),
        (
            CASE,
            Heard(200, JSON | {"content-type": "text/event-stream"}, b"data: [DONE]\n\n", True),
            True,
        ),
        (CASE, Heard(), False),
        (GONE, Heard(), True),
        (GONE, Heard(late=True), False),
        (GONE, Heard(400, {}, b"", whole=True), True),
        (CASE, Heard(400, {}, b"", whole=True), False),
        (GONE, Heard(400, {}, b"own words", whole=True), False),
    ],
)
def test_an_answer_is_judged(case: Case, heard: Heard, right: bool) -> None:
    assert right == (not judge(case, heard)[1])


def test_the_codes_are_all_of_the_errors() -> None:
    assert {"internal_error", "invalid_request", "model_not_found", "upstream_broke"} <= CODES


def test_a_document_is_written_as_json_and_raw_text_as_it_stands() -> None:
    assert '{"a":[1,NaN],"b":null}' == written({"a": [1, Raw("NaN")], "b": None})
    for value in ODD:
        if not isinstance(value, Raw):
            assert written(value).encode()


def test_every_kind_of_case_is_made() -> None:
    cases = [Maker("key").case(number) for number in range(390)]
    assert 10 == len({case.kind for case in cases})
    assert len({case.sent for case in cases}) > 350
