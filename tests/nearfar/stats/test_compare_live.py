"""nearfar compare over two servers that answer, measured in turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar import checkout, runs

Call = Callable[..., Any]
# Far more than a busy machine makes of itself.
SLOW_MS = 250


@pytest.fixture
def before() -> Iterator[UpstreamThread]:
    with UpstreamThread(Script(first_content_ms=5, gap_ms=1, chunks=3)) as found:
        yield found


@pytest.fixture
def after() -> Iterator[UpstreamThread]:
    with UpstreamThread(Script(first_content_ms=SLOW_MS, gap_ms=1, chunks=3)) as found:
        yield found


@pytest.fixture
def asked(tmp_path: Path) -> tuple[str, ...]:
    """The options of a small load."""
    words = ("--requests", "32", "--rounds", "8", "--concurrency", "2", "--warm-up", "2")
    return (*words, "--api-key", "key", "--no-record", "--out", str(tmp_path))


def kept(folder: Path) -> list[runs.Run]:
    return [runs.read(next(folder.glob(f"*-{arm}.jsonl"))) for arm in ("before", "after")]


def test_a_slower_server_is_called_slower(
    run: Call, before: UpstreamThread, after: UpstreamThread, asked: tuple[str, ...]
) -> None:
    ran = run("compare", before.url, after.url, *asked, "--json")
    assert 0 == ran.code
    rows = {row["name"]: row for row in ran.document["table"]}
    assert "slower" == rows["first content"]["verdict"]
    assert rows["first content"]["difference"] > SLOW_MS / 2
    assert "no difference seen" == rows["output tokens"]["verdict"]
    assert ran.document["interleaved"]
    assert "kept as" in ran.err


def test_both_sides_are_asked_the_same_in_turns(
    run: Call,
    before: UpstreamThread,
    after: UpstreamThread,
    asked: tuple[str, ...],
    tmp_path: Path,
) -> None:
    run("compare", before.url, after.url, *asked)
    one, two = ([json.loads(r.body) for r in server.requests] for server in (before, after))
    assert one == two
    assert len({body["seed"] for body in one}) == len(one), "each is new to the cache"
    runs_kept = kept(tmp_path)
    began: dict[tuple[int, str], float] = {}
    ended: dict[tuple[int, str], float] = {}
    for found in runs_kept:
        for s in found.measured:
            key = (s.block, s.arm or "")
            began[key] = min(s.sent_s, began.get(key, 1e9))
            ended[key] = max(s.end_s or 0.0, ended.get(key, 0.0))
    order = sorted(began, key=lambda key: began[key])
    assert ["before", "after", "after", "before"] * 4 == [arm for _, arm in order]
    assert [n for n in range(8) for _ in "AB"] == [number for number, _ in order]
    assert all(ended[a] <= began[b] for a, b in pairwise(order))


def test_runs_that_were_kept_compare_alike_again(
    run: Call,
    before: UpstreamThread,
    after: UpstreamThread,
    asked: tuple[str, ...],
    tmp_path: Path,
) -> None:
    first = run("compare", before.url, after.url, *asked, "--json").document
    names = [str(next(tmp_path.glob(f"*-{arm}.jsonl"))) for arm in ("before", "after")]
    assert first == run("compare", *names, "--json").document


def test_an_open_loop_keeps_its_pace_in_every_turn(
    run: Call, before: UpstreamThread, after: UpstreamThread, tmp_path: Path
) -> None:
    words = ("--rate", "200", "--requests", "40", "--rounds", "8", "--warm-up", "0")
    ran = run(
        "compare",
        before.url,
        after.url,
        *words,
        "--api-key",
        "key",
        "--out",
        str(tmp_path),
        "--json",
    )
    assert 0 == ran.code
    one, two = kept(tmp_path)
    for found in (one, two):
        assert 40 == len(found.measured)
    gaps = [
        [
            (b.scheduled_s or 0.0) - (a.scheduled_s or 0.0)
            for a, b in pairwise(s)
            if a.block == b.block
        ]
        for s in (sorted(found.measured, key=lambda x: x.i) for found in (one, two))
    ]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


def test_one_server_beside_itself_shows_no_difference(
    run: Call, before: UpstreamThread, asked: tuple[str, ...]
) -> None:
    document = run("compare", before.url, before.url, *asked, "--json").document
    rows = {row["name"]: row for row in document["table"]}
    assert "no difference seen" == rows["first content"]["verdict"]
    seeds = [json.loads(r.body)["seed"] for r in before.requests]
    assert len(seeds) == len(set(seeds)), "one cache may not answer one side with the other's"


def test_a_dead_endpoint_is_code_3_and_one_line(
    run: Call, before: UpstreamThread, asked: tuple[str, ...]
) -> None:
    ran = run("compare", before.url, "http://127.0.0.1:9", *asked, "--model", "mock")
    assert 3 == ran.code
    assert 2 == len(ran.err.splitlines())


@pytest.mark.parametrize("asked_first", [4, 60], ids=["at once", "in the middle"])
def test_ctrl_c_keeps_what_was_measured_and_ends_with_130(
    before: UpstreamThread, after: UpstreamThread, tmp_path: Path, asked_first: int
) -> None:
    words = ("--requests", "4000", "--rounds", "400", "--api-key", "k", "--no-record")
    argv = [sys.executable, "-m", "nearfar", "compare", before.url, after.url, *words]
    with subprocess.Popen(
        [*argv, "--model", "mock", "--out", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": checkout.python_path(checkout.here())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(before.requests) < asked_first:
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=60)
    assert 130 == started.returncode, err
    assert "Traceback" not in err
    assert "kept as" in err
    assert all("interrupted" == found.end.reason for found in kept(tmp_path) if found.end)


def test_a_file_beside_an_address_is_bad_input(run: Call, before: UpstreamThread) -> None:
    assert 2 == run("compare", before.url, "run.jsonl").code


def test_options_of_a_load_are_for_measuring(run: Call, tmp_path: Path) -> None:
    ran = run("compare", "a.jsonl", "b.jsonl", "--concurrency", "3")
    assert 2 == ran.code
    assert "--concurrency is for measuring" in ran.err


@pytest.mark.parametrize("words", [("--requests", "4"), ("--duration", "1")])
def test_a_load_that_does_not_fill_the_rounds_is_bad_input(
    run: Call, before: UpstreamThread, words: tuple[str, ...]
) -> None:
    ran = run("compare", before.url, before.url, *words, "--api-key", "k", "--model", "mock")
    assert 2 == ran.code
    assert "--requests" in ran.err
