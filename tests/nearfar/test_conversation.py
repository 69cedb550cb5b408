"""A conversation of several turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fakes import sample
from fakes.http_edge import HttpEdge, serving
from nearfar.client import Answer, Question
from nearfar.conversation import Conversation, hold
from nearfar.errors import NearfarError
from nearfar.exchange import Edge


@pytest.fixture
def fake() -> Iterator[HttpEdge]:
    with serving(HttpEdge(stream=sample.stream())) as edge:
        yield edge


def talk(
    fake: HttpEdge, lines: list[str], on_text: Callable[[str], None] = lambda _: None
) -> tuple[Conversation, list[NearfarError]]:
    """Say these lines, then end the input."""
    waiting, problems = iter(lines), list[NearfarError]()

    def read_line() -> str:
        for line in waiting:
            return line
        raise EOFError

    made = Conversation(Edge(fake.endpoint, fake.key("chat")), Question("mock", []))
    hold(made, read_line, on_text, problems.append)
    return made, problems


def asked(fake: HttpEdge) -> list[list[str]]:
    return [[message["content"] for message in body["messages"]] for _, body in fake.asked]


def test_every_turn_carries_the_turns_before_it(fake: HttpEdge) -> None:
    talk(fake, ["one", "two"])
    assert [["one"], ["one", "Hello you", "two"]] == asked(fake)


def test_an_answer_is_handed_on_when_it_is_whole(fake: HttpEdge) -> None:
    lines, answers = iter(["one"]), list[Answer]()
    made = Conversation(Edge(fake.endpoint, fake.key("chat")), Question("mock", []))
    fake.stream = sample.stream(end=sample.CUT)

    def read_line() -> str:
        for line in lines:
            return line
        raise EOFError

    hold(made, read_line, lambda _: None, lambda _: None, answers.append)
    assert ["cut at 2 tokens"] == [answer.cut for answer in answers]


def test_reset_forgets_and_exit_ends(fake: HttpEdge) -> None:
    talk(fake, ["one", "/reset", "two", "/exit", "three"])
    assert [["one"], ["two"]] == asked(fake)


def test_empty_lines_ask_nothing(fake: HttpEdge) -> None:
    talk(fake, ["", "   "])
    assert [] == asked(fake)


def test_a_failed_turn_is_told_and_leaves_nothing_behind(fake: HttpEdge) -> None:
    fake.stream = sample.delta("Hel")
    made, problems = talk(fake, ["one"])
    assert [] == made.messages
    assert "broke off" in problems[0].message


def test_an_interrupt_stops_the_answer_and_not_the_conversation(fake: HttpEdge) -> None:
    interrupts = iter([True])

    def on_text(text: str) -> None:
        if text == "Hello" and next(interrupts, False):
            raise KeyboardInterrupt

    made, _ = talk(fake, ["one", "two"], on_text)
    assert [["one"], ["two"]] == asked(fake)
    assert 2 == len(made.messages)
