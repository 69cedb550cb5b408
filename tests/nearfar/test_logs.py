"""Log files, read for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearfar.logs import Tail, brief, is_trouble, last_lines, tidy


def test_a_tail_gives_each_line_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert [] == list(tail.lines())
    log.write_bytes(b"one\ntw")
    assert ["one"] == list(tail.lines())
    with log.open("ab") as handle:
        handle.write(b"o\nthree\n")
    assert ["two", "three"] == list(tail.lines())
    assert [] == list(tail.lines())


def test_a_tail_from_the_end_leaves_out_what_was_there(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"ERROR before\n")
    tail = Tail(log, wanted=is_trouble, from_end=True)
    with log.open("ab") as handle:
        handle.write(b"INFO as always\nERROR after\n")
    assert ["ERROR after"] == list(tail.lines())


def test_a_tail_from_the_end_of_a_log_that_comes_later_gives_all_of_it(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "log", from_end=True)
    (tmp_path / "log").write_bytes(b"one\n")
    assert ["one"] == list(tail.lines())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(EngineCore pid=7) ERROR 11-30 10:28:43 [core.py:1] failed", True),
        ("ValueError: no", True),
        ("Traceback (most recent call last):", True),
        ("thread 'main' panicked at src/main.rs:1", True),
        ("7:M 30 Nov 2026 10:29:10.344 # Error writing to the AOF file", True),
        ("(APIServer pid=7) INFO 11-30 10:28:43 [api_utils.py:347] version 0.32.0", False),
        ("(Worker pid=7) WARNING 11-30 10:28:59 [cpu.py:317] Reset SSM cache type", False),
        ('{"time":1.0,"status":200,"error":null}', False),
        ('{"time":1.0,"status":502,"error":"upstream_unavailable"}', True),
    ],
)
def test_errors_are_told_from_ordinary_lines(line: str, expected: bool) -> None:
    assert expected == is_trouble(line)


def test_control_sequences_and_empty_lines_are_left_out() -> None:
    assert ["red"] == list(tidy(b"\x1b[31mred\x1b[0m\n\n   \n"))


def test_a_line_longer_than_a_screen_is_cut() -> None:
    (line,) = tidy(b"x" * 5000)
    assert line.endswith(" …")
    assert 300 > len(line)


def test_bytes_that_are_no_text_do_not_stop_the_reader() -> None:
    assert ["a\ufffdb"] == list(tidy(b"a\xffb\n"))


def test_last_lines_of_a_missing_log_are_none(tmp_path: Path) -> None:
    assert [] == last_lines(tmp_path / "absent")


def test_only_the_last_lines_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{number}\n" for number in range(100)))
    assert ["98", "99"] == last_lines(log, 2)


def test_the_edges_account_of_a_request_becomes_one_short_line() -> None:
    record = {
        "time": 1.0,
        "status": 200,
        "cache": "hit",
        "model": "mock",
        "edge": {"t5": 1.5, "t6": 2.5},
        "error": None,
        "request_id": "req_1",
    }
    line = json.dumps(record, separators=(",", ":"))
    assert "200 · cache hit · mock · first content 1.5 ms · total 2.5 ms · req_1" == brief(line)


def test_a_line_that_only_looks_like_an_account_stays() -> None:
    assert '{"time": broken' == brief('{"time": broken')
