"""What nearfar coldstart rests on, by the real vLLM: the lines of its log, and a first token."""

from __future__ import annotations

import pytest

from fakes.engine import grant, signed
from gpu_backend.server import Server
from nearfar.placement import engine_starts
from nearfar.placement.engine_log import ENDINGS, LogMarks
from stack.gates import GATE_SECRET

# The first run installs vLLM, which is a download of gigabytes.
pytestmark = pytest.mark.timeout(1200)


def test_every_step_has_its_line_in_the_log_of_a_start(vllm: Server) -> None:
    marks = LogMarks()
    for number, line in enumerate(vllm.log.read_bytes().splitlines(keepends=True)):
        marks.feed(line, float(number))
    assert [ending.step for ending in ENDINGS] == list(marks.seen_ms)
    assert {"weights", "profile, KV cache, warm-up"} == set(marks.own_words_s)
    assert all(seconds > 0 for seconds in marks.own_words_s.values())


def test_the_first_token_of_a_running_server_is_timed(vllm: Server) -> None:
    start = engine_starts.warm(vllm, 0, signed(grant("warm"), GATE_SECRET.encode()))
    assert ["connect", "head of the answer", "first token"] == [step.name for step in start.steps]
    assert all(step.ms is not None and step.ms > 0 for step in start.steps)
