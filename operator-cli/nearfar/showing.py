"""What `nearfar up` shows of a stack that is ready: where it is, and one question asked twice."""

from __future__ import annotations

import shutil

from nearfar import console, waterfall
from nearfar.client import Answer, Question, ask
from nearfar.errors import NearfarError
from nearfar.exchange import Edge
from nearfar.state import State

# Long enough for a real answer, short enough for a small model on two cores.
ASK_MAX_TOKENS = 96


def ready(state: State, *, as_json: bool) -> None:
    """Show where the stack is and with which key it is asked."""
    if as_json:
        console.result_json(
            {
                "endpoint": state.endpoint,
                "api_key": state.api_key,
                "model": state.model,
                "pid": state.pid,
            }
        )
        return
    console.result(f"\nready     {state.endpoint}/v1 (any OpenAI client)")
    console.result(f"api key   {state.api_key}")
    console.result(f"model     {state.model}\n")


def cut(answer: Answer, longer: str = "--max-tokens") -> None:
    """Say so when an answer stopped at its limit of tokens, and what asks for a longer one."""
    if answer.cut:
        console.remark(f"{answer.cut}; {longer} asks for more")


def ask_twice(state: State, text: str, *, as_json: bool) -> None:
    """Ask the same question twice, with its account of time: the first answer, then the hit.

    Raises:
        NearfarError: when an answer failed or the second one did not come from the cache.
    """
    width = shutil.get_terminal_size((100, 24)).columns
    for times in ("first", "second"):
        answer = _ask(state, text, as_json=as_json)
        if as_json:
            document = answer.record.document if answer.record else None
            said = {"text": answer.text, "finish_reason": answer.finish_reason}
            console.result_json({"ask": times, **said, "record": document})
        elif answer.record:
            console.result("")
            cut(answer, "./nearfar chat --max-tokens")
            console.result(f"\nx-cache: {answer.cache}")
            console.result("\n".join(waterfall.lines(answer.record, width)) + "\n")
    if answer.cache != "hit":
        raise NearfarError(
            f"The second answer was no hit (x-cache: {answer.cache}).",
            "the store may be unreachable for the edge; see .nearfar/run/edge.log",
        )


def _ask(state: State, text: str, *, as_json: bool) -> Answer:
    question = Question(
        model=state.model,
        messages=[{"role": "user", "content": text}],
        temperature=0.0,
        max_tokens=ASK_MAX_TOKENS,
        trace=True,
    )
    edge = Edge(state.endpoint, state.api_key)
    return ask(edge, question, (lambda _: None) if as_json else console.piece)
