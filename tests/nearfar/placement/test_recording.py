from __future__ import annotations

from pathlib import Path

import pytest

from nearfar.errors import BadInput
from nearfar.placement import recording
from nearfar.placement.recording import Absent
from nearfar.placement.steps import Mark, Start, Step, started


def start(number: int = 0) -> Start:
    marks = [Mark("connect", 1.25), Mark("instance", None, "quiet"), Mark("answer", 4.5)]
    outside = (Step("image", None, "nobody pulled it"),)
    return started("container", "cold", number, 12.5, marks, outside=outside, note="a note")


def recorded(path: Path) -> recording.Recording:
    made = recording.begin(["coldstart"], ["split"], ["container"], (2, 1), path)
    made.add(start(0))
    made.leave_out("engine", "it is not here")
    made.add(start(1))
    return made


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    made = recorded(path)
    made.end("done")
    found = recording.read(path)
    assert [start(0), start(1)] == found.starts
    assert [Absent("engine", "it is not here")] == found.absent
    assert (made.header, "done") == (found.header, found.reason)
    assert made.document() == found.document()


def test_a_file_that_was_cut_anywhere_after_its_first_line_is_read_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    path, cut = tmp_path / "x.jsonl", tmp_path / "cut.jsonl"
    recorded(path).end("done")
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        cut.write_bytes(whole[:end])
        # A last line may be whole but for its end.
        ended = whole[:end].count(b'{"kind": "start"') - (whole[end - 1 : end] != b"\n")
        assert len(recording.read(cut).starts) in (ended, ended + 1)


def test_every_line_is_in_the_file_at_once(tmp_path: Path) -> None:
    made = recorded(tmp_path / "x.jsonl")
    assert 2 == len(recording.read(tmp_path / "x.jsonl").starts)
    made.end("done")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no recording of starts"),
        ('{"kind":"header","schema":"nearfar.run/1"}\n', "no recording of starts"),
        ("[1]\n", "no recording of starts"),
        ('{"kind":"header","schema":"nearfar.coldstart/1"}\n', "Line 1 .* is broken"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        recording.read(path)


@pytest.mark.parametrize(
    "line",
    ["{", '{"kind":"start"}', "{}", '{"kind":"start","subject":"container","kind2":1}'],
)
def test_a_broken_line_in_the_middle_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    recorded(path).end("done")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    with pytest.raises(BadInput, match="Line 3 "):
        recording.read(path)


def test_a_start_whose_steps_are_not_its_whole_is_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    recorded(path).end("done")
    path.write_text(path.read_text().replace('"total_ms": 4.5', '"total_ms": 5.5', 1))
    with pytest.raises(BadInput, match="Line 2 "):
        recording.read(path)


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("mine")
    with pytest.raises(BadInput, match="is there already"):
        recording.begin([], [], [], (), tmp_path / "x.jsonl")
    with pytest.raises(BadInput, match="cannot be read"):
        recording.read(tmp_path / "absent.jsonl")
