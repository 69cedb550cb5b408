"""Workloads: files of prompts, drawn lengths, recorded traces; a broken line is named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nearfar.errors import BadInput
from nearfar.load import synthetic, workload
from nearfar.load.prompt import Prompt, Sampling
from nearfar.load.synthetic import Length

ASKED = [{"role": "user", "content": "Name a river."}]


def words(number: int, tokens: int) -> Any:
    return synthetic.messages(0, number, tokens)


def written(tmp_path: Path, name: str, *entries: object) -> Path:
    path = tmp_path / name
    lines = [e if isinstance(e, str) else json.dumps(e) for e in entries]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_text_file_is_a_prompt_a_line(tmp_path: Path) -> None:
    found = workload.prompts(written(tmp_path, "p.txt", "Name a river.", "", "Why?"))
    assert [("line1", "Name a river."), ("line3", "Why?")] == [
        (p.id, p.text) for p in found.prompts
    ]
    assert "Name a river." == found[2].text  # it begins again


def test_a_json_lines_file_may_say_more(tmp_path: Path) -> None:
    more = {"id": "q1", "category": "geo", "expected": "Rhine", "max_tokens": 7}
    path = written(tmp_path, "p.jsonl", {"prompt": "Name a river.", **more}, {"messages": ASKED})
    first, second = workload.prompts(path).prompts
    assert ("q1", "geo", "Rhine", 7) == (
        first.id,
        first.category,
        first.expected,
        first.max_tokens,
    )
    assert ASKED == list(first.messages) == list(second.messages)
    assert "line2" == second.id


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "it is not JSON"),
        ("[1]", "it is not an object"),
        ("{}", "it has neither a prompt nor messages"),
        ('{"prompt": 3}', "it has neither a prompt nor messages"),
        ('{"messages": ["x"]}', "it has neither a prompt nor messages"),
        ('{"prompt": "x", "max_tokens": 0}', "max_tokens is not a whole number above 0"),
        ('{"prompt": "x", "max_tokens": true}', "max_tokens is not a whole number above 0"),
        ('{"prompt": "x", "category": 1}', "category is not text"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = written(tmp_path, "p.jsonl", {"prompt": "x"}, line)
    with pytest.raises(BadInput, match=rf"p\.jsonl, line 2: {why}\."):
        workload.prompts(path)


def test_an_empty_file_and_one_that_is_not_there_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no request"):
        workload.prompts(written(tmp_path, "p.txt", ""))
    with pytest.raises(BadInput, match="cannot be read"):
        workload.prompts(tmp_path / "none.txt")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read as text"):
        workload.prompts(tmp_path / "b.txt")


def test_lengths_are_drawn_evenly_and_again_for_the_same_seed() -> None:
    found = synthetic.requests(2000, Length(10, 20), Length(3, 3), seed=4)
    counts = Counter(len(p.text.split()) for p in found.prompts)
    assert set(range(10, 21)) == set(counts)
    assert max(counts.values()) < 1.5 * min(counts.values())
    assert {3} == {p.output_tokens for p in found.prompts}
    assert found == synthetic.requests(2000, Length(10, 20), Length(3, 3), seed=4)
    assert found.sha256 != synthetic.requests(2000, Length(10, 20), Length(3, 3), seed=5).sha256


def test_no_two_synthetic_prompts_begin_alike() -> None:
    """A prefix cache would else make the later ones faster."""
    texts = [p.text for p in synthetic.requests(500, Length(50, 50), Length(1, 1), 0).prompts]
    assert 500 == len({" ".join(text.split()[:8]) for text in texts})


@pytest.mark.parametrize("text", ["", "0", "5-3", "a", "-3", "3-", "1.5"])
def test_a_length_that_is_none_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        Length.parse(text)


def test_a_length_is_one_number_or_a_range() -> None:
    assert (Length(7, 7), Length(3, 9)) == (Length.parse("7"), Length.parse("3-9"))
    assert {3, 4} == {Length(3, 4).draw(Random(n)) for n in range(20)}  # noqa: S311


def test_a_trace_has_instants_and_lengths_in_seconds_or_as_mooncake_has_them(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        "t.jsonl",
        {"at_s": 2.5, "prompt": "late"},
        {"timestamp": 500, "input_length": 6, "output_length": 4},
        {"at_s": 1.0, "input_tokens": 3, "output_tokens": 2, "category": "c"},
    )
    found = workload.trace(path, words)
    assert [0.5, 1.0, 2.5] == found.instants
    first, second, third = found.prompts
    assert (6, 4) == (len(first.text.split()), first.output_tokens)
    assert (3, 2, "c") == (len(second.text.split()), second.output_tokens, second.category)
    assert ("late", None) == (third.text, third.output_tokens)


def test_a_recorded_run_is_a_trace(tmp_path: Path) -> None:
    request = {"kind": "request", "phase": "measured", "sent_s": 1.2, "scheduled_s": 1.0}
    tokens = {"input_tokens": 5, "output_tokens": 3}
    path = written(
        tmp_path,
        "run.jsonl",
        {"kind": "header"},
        {**request, "phase": "warmup", "usage": tokens},
        {**request, "usage": tokens},
        {**request, "scheduled_s": None, "usage": tokens},
        {**request, "usage": None},
        {"kind": "end"},
    )
    found = workload.trace(path, words)
    assert [1.0, 1.2] == found.instants
    assert [(5, 3)] * 2 == [(len(p.text.split()), p.output_tokens) for p in found.prompts]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"prompt": "x"}, "it has neither at_s nor timestamp"),
        ({"at_s": -1, "prompt": "x"}, "its time is not a number of at least 0"),
        ({"at_s": "1", "prompt": "x"}, "its time is not a number of at least 0"),
        ({"at_s": 1}, "it has neither a prompt nor input_tokens"),
    ],
)
def test_a_broken_line_of_a_trace_is_named(tmp_path: Path, entry: object, why: str) -> None:
    with pytest.raises(BadInput, match=rf"t\.jsonl, line 1: {why}\."):
        workload.trace(written(tmp_path, "t.jsonl", entry), words)


def test_a_body_asks_for_a_stream_with_usage_and_only_for_what_was_set() -> None:
    prompt = Prompt(id="p", messages=ASKED)
    assert {
        "model": "m",
        "messages": ASKED,
        "stream": True,
        "stream_options": {"include_usage": True},
    } == Sampling(model="m", temperature=None).body(prompt)
    full = Sampling(model="m", temperature=0.0, max_tokens=9, include_usage=False)
    assert {
        "model": "m",
        "messages": ASKED,
        "stream": True,
        "temperature": 0.0,
        "max_tokens": 9,
        "seed": 3,
    } == full.body(prompt, 3)


def test_an_exact_answer_length_is_asked_in_vllms_words() -> None:
    body = Sampling(model="m", max_tokens=9).body(Prompt(id="p", messages=ASKED, output_tokens=5))
    assert (5, 5, True) == (body["max_tokens"], body["min_tokens"], body["ignore_eos"])
