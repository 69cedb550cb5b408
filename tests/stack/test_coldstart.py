"""nearfar coldstart as it is typed: the real component, real processes, and a real interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nearfar import checkout
from nearfar.guard import Guard
from nearfar.placement import edge_starts, recording
from nearfar.placement.dial import Line
from nearfar.placement.processes import Bench
from stack.caller import Caller

QUICK = ("edge-instance", "edge-host", "container")


def environment(folder: Path) -> Mapping[str, str]:
    """A run folder of its own."""
    paths = checkout.python_path(checkout.here())
    return os.environ | {"PYTHONPATH": paths, "NEARFAR_RUN_DIR": str(folder / "run")}


def argv(*words: str) -> list[str]:
    subjects = [word for name in QUICK for word in ("--subject", name)]
    return [
        *(sys.executable, "-P", "-m", "nearfar", "coldstart", "--slow-repeats", "0"),
        *("--interval", "0", *subjects, *words),
    ]


@pytest.fixture(scope="module")
def measured(component: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What one run printed, and the file that it wrote."""
    folder = tmp_path_factory.mktemp("coldstart")
    out = folder / "starts.jsonl"
    words = ("--repeats", "3", "--out", str(out), "--svg", str(folder / "x.svg"))
    done = subprocess.run(
        argv(*words), env=environment(folder), capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert "<svg" in (folder / "x.svg").read_text()
    return done.stdout, out


def test_every_subject_is_measured_as_often_as_asked_cold_and_warm(
    measured: tuple[str, Path],
) -> None:
    found = recording.read(measured[1])
    counts = {
        (name, condition): len(found.of(name, condition))
        for name in QUICK
        for condition in ("cold", "warm")
    }
    assert {
        ("edge-instance", "cold"): 3,
        ("edge-instance", "warm"): 3,
        ("edge-host", "cold"): 3,
        ("edge-host", "warm"): 0,
        ("container", "cold"): 3,
        ("container", "warm"): 3,
    } == counts
    assert "done" == found.reason
    assert [] == found.absent


def test_the_steps_of_each_start_are_its_whole(measured: tuple[str, Path]) -> None:
    for start in recording.read(measured[1]).starts:
        told = [step.ms for step in start.steps if step.ms is not None]
        assert start.total_ms == pytest.approx(sum(told), abs=0.05)
        assert start.total_ms > 0


def test_the_table_has_three_placements_and_says_what_was_not_seen(
    measured: tuple[str, Path],
) -> None:
    out = measured[0]
    assert "one GPU box               container serverless      edge plus GPU" in out
    assert "the host does not say when an instance is made; its time is within 'answer'" in out
    assert "a plain process stands for what runs in one" in out
    (model,) = [line for line in out.splitlines() if line.startswith("model, cold")]
    assert 3 == model.count("not available")


def test_an_earlier_run_is_shown_again(measured: tuple[str, Path], tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "nearfar", "coldstart", "--read", str(measured[1])]
    done = subprocess.run(
        words, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert measured[0] == done.stdout
    document = json.loads(
        subprocess.run(
            [*words, "--json"], env=environment(tmp_path), capture_output=True, check=True
        ).stdout
    )
    assert 15 == len(document["starts"])


def test_the_cold_host_makes_an_instance_for_each_request_and_the_warm_one_does_not(
    component: Path, tmp_path: Path, guard: Guard
) -> None:
    """By what the core itself says of its instance."""
    bench = Bench(checkout.here(), tmp_path, guard)
    key = Caller(secret=bench.settings["NEARFAR_KEY_SECRET"]).key
    said: dict[str, list[Any]] = {}
    with edge_starts.pair(bench, component) as pair:
        for name, address in (("cold", pair.cold), ("warm", pair.warm)):
            for _ in range(3):
                with Line(address) as line:
                    asked = line.ask("/probe?count=1", {"authorization": f"Bearer {key}"})
                said.setdefault(name, []).append(asked.json()["instance"])
    assert {"cold": ["cold"] * 3, "warm": ["warm"] * 3} == said


def test_an_interrupt_keeps_what_was_measured_and_leaves_no_process(
    component: Path, tmp_path: Path
) -> None:
    out = tmp_path / "starts.jsonl"
    with subprocess.Popen(
        argv("--repeats", "500", "--out", str(out)),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asked:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if out.exists() and out.read_text().count('"kind": "start"') >= 2:
                break
            time.sleep(0.05)
        asked.send_signal(signal.SIGINT)
        told, err = asked.communicate(timeout=30)
    assert 130 == asked.returncode, err
    assert "what was measured is kept" in err
    assert "edge: a component instance" in told
    found = recording.read(out)
    assert "interrupted" == found.reason
    assert len(found.starts) >= 2
    assert [] == left_in(tmp_path / "run" / "coldstart")


def left_in(folder: Path) -> list[int]:
    """Processes that still work in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--renew", "1"), 2, "--renew needs --kubeconfig"),
        (("--subject", "pod"), 2, "--subject pod needs --kubeconfig"),
        (("--kubeconfig", "absent.yaml"), 2, "absent.yaml cannot be read"),
        (("--read", "absent.jsonl"), 2, "absent.jsonl cannot be read"),
        (("--png", "x.svg"), 2, "does not end in .png"),
        (("--repeats", "0"), 3, "Nothing could be measured: no repeats"),
    ],
)
def test_bad_input_is_one_line_and_its_code(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = subprocess.run(
        argv(*words), env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (code, "") == (done.returncode, done.stdout)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
