"""Every legal framing of the upstream's events arrives as the same text at the client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fakes.script import METRICS, Script
from stack.answers import Json, events
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge

PIECES = ("grüße ", "🙂", "日本", "語", '"quoted" \\n', "\n\ndata: x\n", "[DONE]", " end")
TEXT = "".join(PIECES)
BASE = Script(pieces=PIECES, metrics=METRICS)
# bytes a write: all at once, one, two, three (which splits every multi-byte letter), seven
SIZES = (None, 0, 1, 2, 3, 7)
FRAMINGS: dict[str, dict[str, Any]] = {
    "LF": {},
    "CRLF": {"line_end": "\r\n"},
    "CR": {"line_end": "\r"},
    "BOM": {"bom": True},
    "comments": {"comments": True},
    "no space": {"space": False},
    "several data lines": {"split_data": True},
    "other fields": {"event_fields": True},
    "all of them, CRLF": {
        "line_end": "\r\n", "bom": True, "comments": True, "space": False,
        "split_data": True, "event_fields": True,
    },
    "all of them, CR": {
        "line_end": "\r", "bom": True, "comments": True, "space": False,
        "split_data": True, "event_fields": True,
    },
    "close framing": {"framing": "close"},
    "length framing": {"framing": "length"},
}  # fmt: skip


def streamed(edge: Edge, caller: Caller, body: dict[str, Any]) -> tuple[str, Any]:
    """The text that the openai client puts together, and the usage it saw."""
    text, usage = "", None
    with caller.openai(edge) as client:
        chunks = client.chat.completions.create(
            **body, stream=True, stream_options={"include_usage": True}
        )
        for chunk in chunks:
            usage = chunk.usage or usage
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
    return text, usage


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_the_client_reads_the_same_text(
    warm: Edge, caller: Caller, calls: Calls, framing: str, size: int | None
) -> None:
    changes: dict[str, Any] = {**FRAMINGS[framing], "write_bytes": size}
    calls.answer(replace(BASE, **changes))
    text, usage = streamed(warm, caller, caller.body())
    assert TEXT == text
    assert usage is not None
    assert len(PIECES) == usage.completion_tokens
    # The kept answer was read from the same bytes.
    with caller.openai(warm) as client:
        hit = client.chat.completions.create(**caller.body())
    assert (TEXT, 1) == (hit.choices[0].message.content, len(calls.seen))


@pytest.mark.parametrize("framing", ["LF", "all of them, CRLF", "all of them, CR"])
def test_a_fresh_instance_reads_the_same_text(
    fresh: Edge, caller: Caller, calls: Calls, framing: str
) -> None:
    changes: dict[str, Any] = FRAMINGS[framing]
    calls.answer(replace(BASE, write_bytes=3, gap_ms=2, **changes))
    text, usage = streamed(fresh, caller, caller.body())
    assert (TEXT, len(PIECES)) == (text, usage.completion_tokens)


@pytest.mark.parametrize("gap_ms", [0, 3])
def test_a_letter_split_over_two_slow_writes_stays_one(
    warm: Edge, caller: Caller, calls: Calls, gap_ms: float
) -> None:
    calls.answer(Script(pieces=("🙂",) * 3, write_bytes=1, write_gap_ms=gap_ms))
    assert "🙂" * 3 == streamed(warm, caller, caller.body())[0]


def test_the_usage_reaches_only_who_asked(edge: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(BASE)
    plain: list[Json] = [{}, {"stream_options": {"include_usage": False}}, {"stream_options": {}}]
    for fields in plain:
        found = events(caller.post(edge, caller.body(stream=True, **fields)).content)
        assert not [e for e in found[:-1] if e.get("usage") or not e["choices"]]
    asked: Json = {"stream_options": {"include_usage": True}}
    found = events(caller.post(edge, caller.body(stream=True, **asked)).content)
    assert 1 == len([e for e in found[:-1] if e.get("usage")])


def test_a_content_that_looks_like_an_end_is_none(warm: Edge, caller: Caller, calls: Calls) -> None:
    pieces = ("data: [DONE]", '\n\ndata: {"error": 1}', '"usage":{}', '"finish_reason":"stop"')
    calls.answer(Script(pieces=pieces, gap_ms=3))
    assert "".join(pieces) == streamed(warm, caller, caller.body())[0]


def test_a_long_answer_comes_whole(edge: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(Script(content="wörter", chunks=3000, write_bytes=0))
    expected = " ".join(["wörter"] * 3000)
    text, usage = streamed(edge, caller, caller.body(max_tokens=5000))
    assert (expected, 3000) == (text, usage.completion_tokens)


def test_one_large_event_comes_whole(edge: Edge, caller: Caller, calls: Calls) -> None:
    calls.answer(Script(pieces=("x" * 300_000, "é" * 100_000)))
    assert "x" * 300_000 + "é" * 100_000 == streamed(edge, caller, caller.body())[0]
