"""The table of cases: each text in an answer, in a request, and in every place of both."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from edge_frontend import guard_input
from edge_frontend.errors import ContentPolicyViolation
from edge_frontend.guard_rules import RULES
from edge_frontend.guard_stream import OutputGuard

RULES_FILE = RULES["standard@1"]
CASES = tomllib.loads(Path(__file__).with_name("guard_cases.toml").read_text())["case"]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
BLOCKED = "blocked: "


def answered(pieces: list[str], **choice: Any) -> str:
    """The content that a client puts together from chunks."""
    guard = OutputGuard(RULES_FILE)
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    passed = [out for chunk in chunks for out in guard.feed(chunk)] + guard.end()
    return "".join(out["choices"][0]["delta"].get("content", "") for out in passed)


PLACES: dict[str, Any] = {
    "a message": lambda text: {"messages": [{"role": "user", "content": text}]},
    "a system message": lambda text: {"messages": [{"role": "system", "content": text}]},
    "a developer's": lambda text: {"messages": [{"role": "developer", "content": text}]},
    "a part": lambda text: {
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]
    },
    "a tool's result": lambda text: {
        "messages": [{"role": "tool", "tool_call_id": "c", "content": text}]
    },
    "a tool call's arguments": lambda text: {
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": json.dumps({"q": text})}}],
            }
        ]
    },
    "a participant's name": lambda text: {
        "messages": [{"role": "user", "name": text, "content": "hi"}]
    },
    "a tool's description": lambda text: {
        "messages": [], "tools": [{"function": {"name": "f", "description": text}}]
    },
    "a schema's property": lambda text: {
        "messages": [], "response_format": {"schema": {"properties": {text: {}}}}
    },
    "a field we do not know": lambda text: {"messages": [], "x_new": {"deep": [[text]]}},
}  # fmt: skip


@each
def test_an_answer_reaches_the_client_as_the_table_says(case: dict[str, Any]) -> None:
    wanted = case.get("output", case["text"])
    assert wanted == answered([case["text"]])
    assert wanted == answered(list(case["text"]))
    message = {"role": "assistant", "content": case["text"]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    passed = OutputGuard(RULES_FILE).body(body)
    assert wanted == passed["choices"][0]["message"]["content"]


@each
@pytest.mark.parametrize("place", PLACES)
def test_a_request_goes_on_as_the_table_says_wherever_the_text_stands(
    case: dict[str, Any], place: str
) -> None:
    wanted = case.get("input", case["text"])
    fields = PLACES[place](case["text"])
    if wanted.startswith(BLOCKED):
        with pytest.raises(ContentPolicyViolation) as raised:
            guard_input.check(fields, RULES_FILE)
        assert wanted.removeprefix(BLOCKED) == raised.value.rule
        return
    checked = guard_input.check(fields, RULES_FILE)
    assert PLACES[place](wanted) == checked.fields
    assert tuple(sorted(case.get("flags", ()))) == checked.fired


def test_every_rule_has_a_case() -> None:
    flagged = {rule for case in CASES for rule in case.get("flags", ())}
    told = " ".join(case.get("input", "") + case.get("output", "") for case in CASES)
    for group in (RULES_FILE.input, RULES_FILE.input_watch, RULES_FILE.output):
        for rule in group.rules:
            assert rule.name in flagged or rule.name in told, rule.name
