"""Reads the edge's answers, by rules of the tests' own: none of the product's code is used here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema

DONE = "[DONE]"
SCHEMA = Path(__file__).parents[2] / "docs" / "record.schema.json"

Json = dict[str, Any]


def events(body: bytes) -> list[Any]:
    """The data of each event as JSON, `[DONE]` as a string; the edge frames with line feeds."""
    blocks = [block.split("\n") for block in body.decode().split("\n\n")]
    assert blocks.pop() == [""], "the stream ends inside an event"
    assert all(line.startswith("data: ") for lines in blocks for line in lines), blocks
    texts = ["\n".join(line.removeprefix("data: ") for line in lines) for lines in blocks]
    return [text if text == DONE else json.loads(text) for text in texts]


def assembled(chunks: Iterable[Any]) -> Json:
    """What a client makes of a stream: message and finish_reason by choice, and the usage."""
    choices: dict[int, Json] = {}
    usage = None
    for chunk in chunks:
        if chunk == DONE:
            continue
        usage = chunk.get("usage") or usage
        for piece in chunk["choices"]:
            choice = choices.setdefault(piece["index"], {"message": {}, "finish_reason": None})
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
            _add(choice["message"], piece["delta"])
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def told(body: Mapping[str, Any]) -> Json:
    """The same facts of a whole body."""
    choices = [
        {"message": _facts(choice["message"]), "finish_reason": choice["finish_reason"]}
        for choice in body["choices"]
    ]
    return {"choices": choices, "usage": body["usage"]}


def facts_of_stream(body: bytes) -> Json:
    """The facts of a streamed answer that ended with [DONE]."""
    found = events(body)
    assert found[-1] == DONE
    assert found.count(DONE) == 1
    answer = assembled(found)
    for choice in answer["choices"]:
        choice["message"] = _facts(choice["message"])
    return answer


def record_of_stream(body: bytes) -> Json:
    """The record of a traced stream: the field `nearfar` of the last chunk before [DONE]."""
    *_, last, done = events(body)
    assert done == DONE
    assert last["choices"] == []
    return valid(last["nearfar"])


def valid(record: Json) -> Json:
    """The record, after a check against its schema."""
    jsonschema.validate(record, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return record


def _add(message: Json, delta: Mapping[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            for part in value or []:
                _add_call(message.setdefault("tool_calls", {}), part)
        elif isinstance(value, str) and name != "role":
            message[name] = (message.get(name) or "") + value
        elif value is not None:
            message[name] = value


def _add_call(calls: dict[int, Json], part: Mapping[str, Any]) -> None:
    call = calls.setdefault(part["index"], {"function": {"name": "", "arguments": ""}})
    call |= {name: part[name] for name in ("id", "type") if part.get(name)}
    for name, text in part.get("function", {}).items():
        call["function"][name] += text or ""


def _facts(message: Mapping[str, Any]) -> Json:
    """Role, texts and tool calls; what is empty or null is left out on both sides."""
    calls = message.get("tool_calls") or []
    listed = [calls[index] for index in sorted(calls)] if isinstance(calls, dict) else calls
    texts = {name: message.get(name) for name in ("role", "content", "reasoning", "refusal")}
    facts: Json = {name: text for name, text in texts.items() if text}
    return facts | ({"tool_calls": listed} if listed else {})
