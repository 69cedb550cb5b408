"""nearfar chat: one answer, or a conversation."""

from __future__ import annotations

import sys

import click

from nearfar import console, conversation, showing
from nearfar.client import Question, ask
from nearfar.commands import target
from nearfar.conversation import Conversation
from nearfar.errors import BadInput

HELP = """Stream the answer to PROMPT; without one, hold a conversation.

In a conversation /reset forgets what was said and /exit ends; ctrl-C stops an answer, not the
conversation.

\b
Examples:
  nearfar chat "Why is the sky blue?"
  nearfar chat
  nearfar chat "Hello" --json
"""


@click.command("chat", help=HELP)
@click.argument("prompt", required=False)
@target.options
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Default: the model server's.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one line of JSON.")
def command(
    prompt: str | None,
    endpoint: str | None,
    api_key: str | None,
    model: str | None,
    max_tokens: int | None,
    temperature: float | None,
    as_json: bool,
) -> None:
    if as_json and prompt is None:
        raise BadInput("--json needs a prompt.", 'nearfar chat "..." --json')
    at = target.find(endpoint, api_key, model)
    question = Question(at.model, [], temperature, max_tokens)
    if prompt is None:
        console.say(f"{at.model} at {at.edge.endpoint}; {conversation.COMMANDS}")
        talk = Conversation(at.edge, question)
        conversation.hold(talk, _read_line, console.piece, console.error, showing.cut)
        return
    question = Question(at.model, [{"role": "user", "content": prompt}], temperature, max_tokens)
    answer = ask(at.edge, question, (lambda _: None) if as_json else console.piece)
    if not as_json:
        console.result("")
        showing.cut(answer)
        return
    console.result_json(
        {
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "usage": answer.usage,
            "cache": answer.cache,
            "request_id": answer.request_id,
            "model": at.model,
        }
    )


def _read_line() -> str:
    # input() writes its prompt to stdout, which is for results.
    if sys.stdin.isatty():
        sys.stderr.write("> ")
        sys.stderr.flush()
    return input()
