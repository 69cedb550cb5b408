"""Grades by another model: a real HTTP server that answers as a judge or with embeddings."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fakes.made_run import Making, made
from nearfar.errors import BadInput, Missing, NearfarError
from nearfar.stats.comparison import Options, compared
from nearfar.stats.graders import Endpoint, cosine, judged, likeness
from nearfar.stats.side import Sides, sides


class Model(ThreadingHTTPServer):
    """A fake grader: CORRECT where both are alike, and letters counted as an embedding."""

    def __init__(self, word: str | None = None, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.word, self.status = word, status
        self.asked: list[tuple[str, str | None, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, self.headers.get("authorization"), body))
        answer = json.dumps(self._answer(body)).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _answer(self, body: Any) -> Any:
        if self.path.endswith("/embeddings"):
            rows = [
                {"index": i, "embedding": [float(text.count(c)) for c in "Oslobergn"]}
                for i, text in enumerate(body["input"])
            ]
            return {"data": rows[::-1]}
        case = json.loads(body["messages"][-1]["content"])
        word = "CORRECT." if case["answer"] == case["reference"] else "wrong"
        return {"choices": [{"message": {"content": self.server.word or word}}]}

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def grading(model: Model) -> Iterator[Endpoint]:
    thread = threading.Thread(target=model.serve_forever, daemon=True)
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{model.server_port}/v1", "grader", "secret")
    finally:
        model.shutdown()
        model.server_close()
        thread.join()


@pytest.fixture
def both() -> Sides:
    return sides(made(Making(seed=1, right=0.9)), made(Making(seed=2, right=0.5)))


def test_a_judge_grades_each_different_answer_once(both: Sides) -> None:
    model = Model()
    with grading(model) as endpoint:
        scores = judged(both, endpoint)
    right = [sum(s.answer == "Oslo" for s in side) for side in (both.before, both.after)]
    assert right == [sum(scores.before.values()), sum(scores.after.values())]
    assert 2 == len(model.asked)
    assert {"Bearer secret"} == {key for _, key, _ in model.asked}
    assert "secret" not in repr(endpoint)


def test_a_judge_that_says_something_else_grades_nothing(both: Sides) -> None:
    with grading(Model(word="Well, it depends: CORRECT or WRONG")) as endpoint:
        scores = judged(both, endpoint)
    assert {} == scores.before
    assert 400 == scores.ungraded


def test_likeness_is_the_cosine_of_embeddings(both: Sides) -> None:
    with grading(Model()) as endpoint:
        scores = likeness(both, endpoint)
    oslo, bergen = ([float(w.count(c)) for c in "Oslobergn"] for w in ("Oslo", "Bergen"))
    assert {1.0, round(cosine(oslo, bergen), 9)} == {round(v, 9) for v in scores.before.values()}


def test_worse_answers_are_called_worse_by_a_judge(both: Sides) -> None:
    before, after = made(Making(seed=1, right=0.9)), made(Making(seed=2, right=0.5))
    with grading(Model()) as endpoint:
        scores = judged(both, endpoint)
    found = compared(before, after, Options(draws=400), [scores]).quality
    assert "worse" == next(q.word for q in found if q.name == "judged by grader")


def test_answers_that_were_not_kept_cannot_be_graded() -> None:
    nothing = sides(made(), made(Making(seed=2)))
    with pytest.raises(BadInput, match="No answer can be graded"):
        judged(nothing, Endpoint("http://127.0.0.1:9", "grader"))


def test_a_grader_that_is_not_there_is_missing(both: Sides) -> None:
    with pytest.raises(Missing, match="Nothing that grades answers"):
        judged(both, Endpoint("http://127.0.0.1:9", "grader"))


def test_a_grader_that_refuses_says_its_status(both: Sides) -> None:
    with grading(Model(status=401)) as endpoint, pytest.raises(NearfarError, match="status 401"):
        likeness(both, endpoint)


@pytest.mark.parametrize(("url", "model"), [("host/v1", "m"), ("http://host", "")])
def test_a_grader_needs_an_address_and_a_model(url: str, model: str) -> None:
    with pytest.raises(BadInput):
        Endpoint(url, model)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 0], [1, 0], 1.0), ([1, 0], [0, 1], 0.0), ([1, 0], [-1, 0], 0.0), ([0, 0], [1, 1], 0.0)],
)
def test_cosines(one: list[float], other: list[float], expected: float) -> None:
    assert expected == pytest.approx(cosine(one, other))
