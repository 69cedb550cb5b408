"""nearfar trace: draw where the time of one request went."""

from __future__ import annotations

import shutil

import click

from nearfar import console, showing, waterfall
from nearfar.client import Question, ask
from nearfar.commands import target
from nearfar.errors import NearfarError

HELP = """Ask PROMPT and draw the request as a waterfall in three lanes.

The lanes client, edge and engine have a clock and a zero each and are never subtracted from each
other. What was not observed says so, and why. The key needs the permission "trace".

\b
Examples:
  nearfar trace "Name three rivers."
  nearfar trace "Name three rivers." --json
  nearfar trace "Hello" --endpoint https://edge.example --api-key nf_...
"""


@click.command("trace", help=HELP)
@click.argument("prompt")
@target.options
@click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the record as one line of JSON.")
def command(
    prompt: str,
    endpoint: str | None,
    api_key: str | None,
    model: str | None,
    max_tokens: int | None,
    temperature: float,
    as_json: bool,
) -> None:
    at = target.find(endpoint, api_key, model)
    question = Question(
        model=at.model,
        messages=[{"role": "user", "content": prompt}],
        temperature=temperature,
        max_tokens=max_tokens,
        trace=True,
    )
    answer = ask(at.edge, question, (lambda _: None) if as_json else console.piece)
    if answer.record is None:
        raise NearfarError("The answer came without a record.", "is the endpoint a nearfar edge?")
    if as_json:
        console.result_json(answer.record.document)
        return
    width = shutil.get_terminal_size((100, 24)).columns
    console.result("")
    showing.cut(answer)
    console.result("")
    console.result("\n".join(waterfall.lines(answer.record, width)))
