"""nearfar bench as it is typed: what it measures, prints and keeps, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import sample
from fakes.http_edge import HttpEdge, serving
from fakes.script import Script, error_script
from fakes.upstream import UpstreamThread
from nearfar import checkout, runs
from nearfar.commands import load_options
from nearfar.errors import BadInput
from nearfar.runs import Objectives

Run = Callable[..., Any]


@pytest.fixture
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread(Script(first_content_ms=5, gap_ms=2)) as found:
        yield found


@pytest.fixture
def at(upstream: UpstreamThread, tmp_path: Path) -> tuple[str, ...]:
    """The words that name the fake and the run's file."""
    return (upstream.url, "--api-key", "key", "--out", str(tmp_path / "r.jsonl"))


def test_the_table_names_what_was_measured_and_where_it_is_kept(
    run: Run, at: tuple[str, ...], tmp_path: Path
) -> None:
    ran = run("bench", *at, "--rate", "100", "--requests", "12", "--label", "first")
    assert 0 == ran.code
    for word in ("first content", "between chunks", "TPOT", "end to end", "12 measured, 12 good"):
        assert word in ran.out
    assert f"kept as {tmp_path / 'r.jsonl'}" in ran.err
    header = runs.read(tmp_path / "r.jsonl").header
    assert ("first", "poisson", 100.0) == (
        header.label,
        header.load.process,
        header.load.rate_per_s,
    )


def test_a_kept_run_gives_the_same_tables_again(
    run: Run, at: tuple[str, ...], tmp_path: Path
) -> None:
    path = str(tmp_path / "r.jsonl")
    printed = run("bench", *at, "--requests", "5").out
    assert printed == run("bench", "--from", path).out
    document = run("bench", "--from", path, "--json").document
    assert 5 == document["figures"]["first_content_ms"]["n"]
    assert document["figures"]["first_content_ms"]["p99"] is None


def test_json_is_one_line_with_every_figure(run: Run, at: tuple[str, ...]) -> None:
    document = run("bench", *at, "--requests", "3", "--objective", "tpot=1000", "--json").document
    assert (3, 0.0) == (document["requests"]["good"], document["error_rate"])
    assert (3, 3) == (document["goodput"]["kept"], document["goodput"]["of"])


def test_a_run_has_a_file_of_its_own_unless_one_is_named(
    run: Run, upstream: UpstreamThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checkout.Checkout(tmp_path, tmp_path / "run")
    monkeypatch.setattr(checkout, "here", lambda: found)
    for _ in range(2):
        assert 0 == run("bench", upstream.url, "--api-key", "key", "--requests", "1").code
    assert 2 == len(list((tmp_path / ".nearfar" / "runs").glob("*.jsonl")))


def test_the_key_stands_neither_in_the_file_nor_on_the_screen(
    run: Run, upstream: UpstreamThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [upstream.url, "--api-key", "nf_secret", "--requests", "1"]
    words += ["--out", str(tmp_path / "r.jsonl")]
    monkeypatch.setattr(sys, "argv", ["nearfar", "bench", *words])
    ran = run("bench", *words)
    header = runs.read(tmp_path / "r.jsonl").header
    assert ["bench", upstream.url, "--api-key", "…"] == list(header.command[:4])
    for text in (ran.out, ran.err, (tmp_path / "r.jsonl").read_text()):
        assert "nf_secret" not in text


def test_the_edges_stages_are_in_the_table(run: Run, tmp_path: Path) -> None:
    with serving(HttpEdge(stream=sample.stream(record=sample.miss()))) as edge:
        key = ("--api-key", edge.key("chat", "trace"))
        out = str(tmp_path / "r.jsonl")
        ran = run("bench", edge.endpoint, *key, "--out", out, "--requests", "3")
    for word in ("edge lane", "look_up", "unattributed", "engine lane", "queue"):
        assert word in ran.out


def test_nothing_at_the_endpoint_is_code_3(run: Run, tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        ran = run("bench", url, "--api-key", "k", "--model", "m", "--out", str(tmp_path / "r"))
    assert (3, "") == (ran.code, ran.out)
    assert "Nothing answers at" in ran.err
    assert "Next step: " in ran.err


def test_a_wrong_key_is_code_1_and_one_line(run: Run, tmp_path: Path) -> None:
    with UpstreamThread(api_key="right") as upstream:
        words = (upstream.url, "--api-key", "wrong", "--model", "mock")
        ran = run("bench", *words, "--out", str(tmp_path / "r"))
    assert (1, "") == (ran.code, ran.out)
    assert "The edge refused: status 401" in ran.err
    assert "--api-key" in ran.err


def test_without_a_stack_and_without_a_url_code_3(run: Run) -> None:
    ran = run("bench")
    assert 3 == ran.code
    assert "./nearfar up" in ran.err


def test_a_load_that_only_failed_is_code_1_and_says_what_failed(
    run: Run, upstream: UpstreamThread, at: tuple[str, ...]
) -> None:
    upstream.enqueue(*[error_script(503)] * 20)
    ran = run("bench", *at, "--requests", "4")
    assert 1 == ran.code
    assert "errors 100.0%" in ran.out
    assert "None of 4 requests had a whole answer: 4 × refused 503 503." in ran.err


def test_a_broken_line_of_a_kept_run_is_named(
    run: Run, at: tuple[str, ...], tmp_path: Path
) -> None:
    run("bench", *at, "--requests", "3")
    path = tmp_path / "r.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], "{broken", *lines[3:]]) + "\n")
    ran = run("bench", "--from", str(path))
    assert (2, "") == (ran.code, ran.out)
    assert "line 4 is broken: it is not JSON." in ran.err


def test_an_empty_run_says_so(run: Run, at: tuple[str, ...], tmp_path: Path) -> None:
    run("bench", *at, "--requests", "3")
    path = tmp_path / "r.jsonl"
    header = path.read_text().splitlines()[0]
    path.write_text(header + "\n")
    ran = run("bench", "--from", str(path))
    assert 1 == ran.code
    assert "holds no measured request" in ran.err
    path.write_text("")
    ran = run("bench", "--from", str(path))
    assert (2, "") == (ran.code, ran.out)
    assert "is not a run of nearfar" in ran.err


def test_a_run_is_not_written_over(run: Run, at: tuple[str, ...]) -> None:
    assert 0 == run("bench", *at, "--requests", "1").code
    ran = run("bench", *at, "--requests", "1")
    assert 2 == ran.code
    assert "is there already" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "1", "--concurrency", "2"),
        ("--process", "burst"),
        ("--rate", "1", "--process", "burst"),
        ("--rate", "1", "--burst-size", "3"),
        ("--rate", "1", "--process", "ramp", "--requests", "3"),
        ("--rate", "1", "--ramp-to", "3", "--duration", "2"),
        ("--rate", "0"),
        ("--trace", "t.jsonl", "--rate", "2"),
        ("--prompts", "p.txt", "--input-tokens", "3"),
        ("--input-tokens", "x"),
        ("--prompts", "none.txt"),
        ("--objective", "ttft=3"),
        ("--objective", "tpot=0"),
        ("--objective", "tpot=nan"),
        ("--endpoint", "http://127.0.0.1:1"),
        ("--out", "/proc/none/r.jsonl"),
    ],
)
def test_a_load_that_cannot_be_is_code_2(
    run: Run, upstream: UpstreamThread, words: tuple[str, ...], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text('{"at_s": 0, "prompt": "x"}\n')
    Path("p.txt").write_text("x\n")
    ran = run("bench", upstream.url, "--api-key", "k", *words)
    assert (2, "") == (ran.code, ran.out)
    assert 2 == len(ran.err.splitlines())


def test_prompts_a_trace_and_lengths_are_what_is_sent(
    run: Run, upstream: UpstreamThread, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("Name a river.\nName a hill.\n")
    (tmp_path / "t.jsonl").write_text('{"at_s": 9, "prompt": "Name a lake."}\n')
    for number, words in enumerate(
        [
            ("--prompts", str(tmp_path / "p.txt"), "--requests", "2"),
            ("--trace", str(tmp_path / "t.jsonl")),
            ("--input-tokens", "7", "--output-tokens", "3", "--requests", "1"),
        ]
    ):
        out = str(tmp_path / f"{number}.jsonl")
        key = ("--api-key", "k", "--warm-up", "0")
        assert 0 == run("bench", upstream.url, *key, *words, "--out", out).code
    texts = [r.json["messages"][-1]["content"] for r in upstream.requests]
    river, hill, lake = "Name a river.", "Name a hill.", "Name a lake."
    assert [river, river, hill, lake, lake] == texts[:5]
    assert [7, 7] == [len(text.split()) for text in texts[5:]]
    assert (3, True) == (
        upstream.requests[-1].json["min_tokens"],
        upstream.requests[-1].json["ignore_eos"],
    )


def test_objectives_are_read_in_milliseconds() -> None:
    assert Objectives(first_content_ms=500.0, tpot_ms=80.5) == load_options.objectives(
        ("first-content=500", "tpot=80.5")
    )
    with pytest.raises(BadInput):
        load_options.objectives(("first-content",))


def test_ctrl_c_prints_what_was_measured_and_ends_with_130(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    words = (upstream.url, "--api-key", "k", "--concurrency", "2", "--duration", "100")
    root = checkout.here()
    with subprocess.Popen(
        [sys.executable, "-m", "nearfar", "bench", *words, "--out", str(path), "--json"],
        env=os.environ | {"PYTHONPATH": checkout.python_path(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(upstream.requests) < 20:
            time.sleep(0.05)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert 130 == started.returncode, err
    document = json.loads(out)
    assert "interrupted" == document["end"]
    assert 10 <= document["requests"]["good"]
    assert "Traceback" not in err


def test_a_terminal_gets_a_bar_and_stdout_the_table_alone(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    ours, theirs = os.openpty()
    words = (upstream.url, "--api-key", "k", "--requests", "6", "--out", str(tmp_path / "r.jsonl"))
    with subprocess.Popen(
        [sys.executable, "-m", "nearfar", "bench", *words],
        env=os.environ | {"PYTHONPATH": checkout.python_path(checkout.here()), "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as started:
        out, _ = started.communicate(timeout=60)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side has gone
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert 0 == started.returncode
    assert "6 of 6 measured" in shown.decode()
    assert out.startswith("run  ")
    assert "\x1b" not in out
