"""A conversation of several turns in the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx

from nearfar.client import Answer, Question, ask
from nearfar.errors import NearfarError
from nearfar.exchange import TIMEOUT, Edge

COMMANDS = "/reset forgets what was said, /exit ends; ctrl-C stops an answer"

ReadLine = Callable[[], str]


@dataclass(slots=True)
class Conversation:
    """The turns so far. An answer that was stopped or failed leaves no turn behind."""

    edge: Edge
    question: Question
    messages: list[dict[str, str]] = field(default_factory=list)

    def say(self, text: str, on_text: Callable[[str], None], client: httpx.Client) -> Answer:
        """Ask with all earlier turns."""
        asked = [*self.messages, {"role": "user", "content": text}]
        answer = ask(self.edge, replace(self.question, messages=asked), on_text, client)
        self.messages = [*asked, {"role": "assistant", "content": answer.text}]
        return answer


def hold(
    talk: Conversation,
    read_line: ReadLine,
    on_text: Callable[[str], None],
    on_problem: Callable[[NearfarError], None],
    on_answer: Callable[[Answer], None] = lambda _: None,
) -> None:
    """Read and answer until /exit or the end of the input."""
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as client:
        while True:
            try:
                text = read_line().strip()
            except (EOFError, KeyboardInterrupt):
                on_text("\n")
                return
            if text == "/exit":
                return
            if text == "/reset":
                talk.messages.clear()
            elif text:
                _turn(talk, text, client, on_text, on_problem, on_answer)


def _turn(
    talk: Conversation,
    text: str,
    client: httpx.Client,
    on_text: Callable[[str], None],
    on_problem: Callable[[NearfarError], None],
    on_answer: Callable[[Answer], None],
) -> None:
    answer = None
    try:
        answer = talk.say(text, on_text, client)
    except KeyboardInterrupt:
        on_text(" [stopped]")
    except NearfarError as problem:
        on_text("\n")
        on_problem(problem)
        return
    on_text("\n")
    if answer:
        on_answer(answer)
