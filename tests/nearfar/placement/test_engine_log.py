"""The log is one that vLLM 0.32 wrote on a CPU, its lines cut at 150 characters."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nearfar.placement.engine_log import ENDINGS, FIRST_TOKEN, Follower, LogMarks
from nearfar.placement.steps import started, steps_between

LOG = (Path(__file__).parent / "vllm.log").read_bytes()
NAMES = [ending.step for ending in ENDINGS]


def test_every_step_is_seen_in_its_order() -> None:
    marks = LogMarks()
    for number, line in enumerate(LOG.splitlines(keepends=True)):
        marks.feed(line, float(number))
    assert NAMES == list(marks.seen_ms)
    assert sorted(marks.seen_ms.values()) == list(marks.seen_ms.values())
    assert {"weights": 0.17, "profile, KV cache, warm-up": 0.27} == marks.own_words_s


def test_it_reads_the_same_split_at_every_byte() -> None:
    whole = LogMarks()
    whole.feed(LOG, 1.0)
    for at in range(len(LOG)):
        halves = LogMarks()
        halves.feed(LOG[:at], 1.0)
        halves.feed(LOG[at:], 1.0)
        assert whole.seen_ms == halves.seen_ms
    each = LogMarks()
    for byte in LOG:
        each.feed(bytes([byte]), 1.0)
    assert (whole.seen_ms, whole.own_words_s) == (each.seen_ms, each.own_words_s)


@pytest.mark.parametrize("at", range(0, len(LOG), 97))
def test_a_log_that_was_cut_says_which_ends_it_has_not(at: int) -> None:
    marks = LogMarks()
    marks.feed(LOG[:at], 5.0)
    steps = steps_between(marks.marks(9.0))
    assert [*NAMES, FIRST_TOKEN] == [step.name for step in steps]
    assert 9.0 == pytest.approx(sum(step.ms for step in steps if step.ms is not None))
    unseen = [step for step in steps if step.ms is None]
    assert all(step.why_not == "its line did not come in the log" for step in unseen)
    assert {step.within for step in unseen} <= {FIRST_TOKEN}


def test_a_line_that_comes_again_or_too_early_does_not_count() -> None:
    marks = LogMarks()
    marks.feed(b"Application startup complete\nLoading weights took 1 seconds\n", 3.0)
    assert {"HTTP server": 3.0} == marks.seen_ms
    start = started("engine", "cold", 0, 0.0, marks.marks(4.0))
    assert 4.0 == start.total_ms


def test_bytes_that_are_no_text_are_no_failure() -> None:
    marks = LogMarks()
    marks.feed(b"\xff\xfe\n(Worker) Loading weights took 0.5 seconds\xff\n", 1.0)
    assert {"weights": 1.0} == marks.seen_ms


def test_a_follower_notes_when_a_line_was_written(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    follower = Follower(path)
    time.sleep(0.1)
    with path.open("wb") as file:
        file.write(b"INFO non-default args: {}\nInitializing a V1")
        file.flush()
        time.sleep(0.2)
        file.write(b" LLM engine\n")
    follower.stop()
    seen = follower.marks.seen_ms
    assert 100 <= seen["process and imports"]
    assert 150 <= seen["engine process and its imports"] - seen["process and imports"]
