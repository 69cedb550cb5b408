"""A stream is read alike however its bytes come; content, reasoning and usage are told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import sample
from fakes.sample import DONE, END, USAGE, chunk, delta
from nearfar.load.reading import Reading
from nearfar.runs import Failure, Usage

ROLE = chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
COMMENT = b": keep-alive\n\n"


def thought(text: str, name: str = "reasoning") -> bytes:
    return chunk(choices=[{"index": 0, "delta": {name: text}}])


def read(*timed: tuple[float, bytes]) -> Reading:
    reading = Reading()
    for at_s, data in timed:
        reading.feed(data, at_s)
    return reading


@pytest.mark.fault(21)
@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_role_or_a_comment_is_no_content_and_reasoning_is_told_from_the_answer(name: str) -> None:
    """Role at 10 ms, a comment at 20, reasoning at 300, text at 900."""
    reading = read(
        (0.010, ROLE),
        (0.020, COMMENT),
        (0.300, thought("hm", name)),
        (0.900, delta("It is")),
        (0.950, END + USAGE + DONE),
    )
    assert (0.300, 0.900, "ok") == (
        reading.first_content_s,
        reading.first_answer_s,
        reading.outcome(),
    )
    assert "It is" == reading.text


@pytest.mark.fault(21)
def test_an_answer_without_content_has_no_first_content_and_is_empty() -> None:
    reading = read((0.010, ROLE), (0.02, COMMENT), (0.03, END + USAGE + DONE))
    assert (None, None, "empty") == (
        reading.first_content_s,
        reading.first_answer_s,
        reading.outcome(),
    )


@pytest.mark.parametrize(
    "fields", [{"tool_calls": [{"index": 0}]}, {"refusal": "no"}, {"content": "x"}]
)
def test_text_tool_calls_and_refusals_are_answer_content(fields: dict[str, Any]) -> None:
    reading = read((0.5, chunk(choices=[{"index": 0, "delta": fields}])), (0.6, DONE))
    assert (0.5, 0.5) == (reading.first_content_s, reading.first_answer_s)


@pytest.mark.fault(20)
def test_chunks_are_not_tokens() -> None:
    """Five chunks, 23 tokens."""
    usage = chunk(choices=[], usage={"prompt_tokens": 9, "completion_tokens": 23})
    pieces = [(0.1 * n, delta("a few tokens ")) for n in range(1, 6)]
    reading = read(*pieces, (0.6, END + usage + DONE))
    assert Usage(9, 23, None) == reading.usage
    assert 4 == len(reading.gaps_ms)
    assert [100.0] * 4 == pytest.approx(reading.gaps_ms)


def test_cached_tokens_come_from_the_details_of_usage() -> None:
    found: dict[str, Any] = {"prompt_tokens": 9, "completion_tokens": 2}
    assert Usage(9, 2, None) == read((1, chunk(choices=[], usage=found))).usage
    found["prompt_tokens_details"] = {"cached_tokens": 8}
    assert Usage(9, 2, 8) == read((1, chunk(choices=[], usage=found))).usage


def test_a_stream_is_read_alike_when_it_is_split_at_every_byte() -> None:
    whole = sample.stream(record=sample.miss())
    expected = read((1.0, whole))
    for cut in range(len(whole) + 1):
        found = read((1.0, whole[:cut]), (1.0, whole[cut:]))
        assert (expected.text, expected.usage, expected.record, "ok") == (
            found.text,
            found.usage,
            found.record,
            found.outcome(),
        )
    one_by_one = read(*((1.0, whole[n : n + 1]) for n in range(len(whole))))
    assert (expected.text, expected.sha256) == (one_by_one.text, one_by_one.sha256)


def test_a_stream_without_its_end_is_cut() -> None:
    whole = sample.stream()
    for cut in range(len(whole) - 1):
        assert "cut" == read((1.0, whole[:cut])).outcome()


@pytest.mark.fault(22)
def test_an_error_within_a_stream_makes_it_a_failed_one() -> None:
    error = chunk(
        error={"message": "secret text", "type": "server_error", "code": "upstream_broke"}
    )
    reading = read((0.1, delta("Hel")), (0.2, error + DONE))
    assert "failed" == reading.outcome()
    assert Failure("upstream_broke", "server_error") == reading.failure


@pytest.mark.parametrize(
    "data", [b"data: {\n\n", b"data: [1]\n\n", b'data: {"choices": [1]}\n\n', b"data: 3\n\n"]
)
def test_what_is_no_chat_stream_is_a_failure(data: bytes) -> None:
    assert Failure("not_a_chat_stream", "client") == read((1.0, data)).failure


def test_an_error_that_is_no_object_is_one_all_the_same() -> None:
    data = b"data: " + json.dumps({"error": "boom"}).encode() + b"\n\n"
    assert Failure("unknown", "") == read((1.0, data)).failure
