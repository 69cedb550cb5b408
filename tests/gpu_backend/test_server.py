"""Waiting and stopping against a stand-in for vLLM; the real one is started for the whole
stack's tests. What is killed here are real processes in a real tree."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_backend import phases, server, spec
from gpu_backend.errors import (
    PortTakenError,
    ServerDiedError,
    ServerRefusedError,
    ServerTimeoutError,
)
from gpu_backend.phases import PHASES, LogFollower
from gpu_backend.probe import Target
from gpu_backend.progress import Progress, ProgressCallback, silent
from gpu_backend.server import Server

FAKE = Path(__file__).with_name("fake_server.py")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; afterwards nothing that was started in it may be alive."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert [] == alive_in(tmp_path)


def alive_in(folder: Path) -> list[int]:
    """Processes whose working directory is `folder`, this one left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_gone(folder: Path, *, within_s: float) -> list[int]:
    deadline = time.monotonic() + within_s
    while (left := alive_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def launch(
    here: Path,
    mode: str,
    *,
    name: str = "small",
    key: str | None = None,
    asked_with: str | None = None,
    timeout_s: float = 20,
    grace_s: float = 5,
    progress: ProgressCallback = silent,
) -> Server:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return server.launch(
        [sys.executable, str(FAKE), str(port), mode],
        target=Target("127.0.0.1", port, name, asked_with or key),
        environment={} if key is None else {"VLLM_API_KEY": key},
        log=here / "logs" / "vllm.log",
        ready_timeout_s=timeout_s,
        stop_grace_s=grace_s,
        progress=progress,
    )


def test_a_server_that_answers_is_returned_with_its_address_and_process(here: Path) -> None:
    with launch(here, "good", key="sk-canary") as running:
        assert f"http://127.0.0.1:{running.target.port}" == running.url
        assert str(FAKE) in Path(f"/proc/{running.pid}/cmdline").read_text()
        assert running.alive
        running.check()


def test_each_phase_is_told_once_in_its_order_with_its_usual_time(here: Path) -> None:
    told: list[Progress] = []
    with launch(here, "good", progress=told.append) as running:
        names = [phase.name for phase in PHASES] + ["answer"]
        assert names == [report.step for report in told if report.state == "started"]
        assert names == [report.step for report in told if report.state == "done"]
        assert names == list(running.start_s)
        assert all(report.usual_s is not None for report in told)


def test_a_healthy_server_that_is_still_busy_is_asked_again(here: Path) -> None:
    launch(here, "busy-first").stop()


def test_stopping_twice_is_as_good_as_once_and_leaves_no_process(here: Path) -> None:
    running = launch(here, "good")
    assert len(alive_in(here)) >= 4
    running.stop()
    assert [] == alive_in(here)
    running.stop()
    assert not running.alive


def test_who_ignores_the_request_to_end_is_ended_after_the_grace(here: Path) -> None:
    running = launch(here, "stubborn", grace_s=0.5)
    began = time.monotonic()
    running.stop()
    assert 0.5 <= time.monotonic() - began < 5
    assert [] == alive_in(here)


def test_a_death_at_the_start_tells_its_cause_and_last_lines(here: Path) -> None:
    with pytest.raises(ServerDiedError, match=r"status 3 before.*: ValueError: no such") as caught:
        launch(here, "dies")
    assert "\n" not in str(caught.value)
    assert ("importing", "goodbye") == (caught.value.log_tail[0], caught.value.log_tail[-1][-7:])


def test_a_death_while_serving_is_told_by_check(here: Path) -> None:
    running = launch(here, "good")
    os.kill(running.pid, signal.SIGKILL)
    assert [] == wait_until_gone(here, within_s=10)
    with pytest.raises(ServerDiedError, match="status 137 while it served"):
        running.check()
    running.stop()


def test_a_program_that_is_not_there_is_a_death_with_its_name(here: Path) -> None:
    with pytest.raises(ServerDiedError, match="no/such/python"):
        server.launch(
            ["no/such/python"],
            target=Target("127.0.0.1", 1, "small"),
            environment={},
            log=here / "vllm.log",
        )


@pytest.mark.parametrize("mode", ["hangs", "never"])
def test_who_never_answers_is_ended_at_the_time_out(here: Path, mode: str) -> None:
    with pytest.raises(ServerTimeoutError, match="did not answer within 2 s") as caught:
        launch(here, mode, timeout_s=2)
    assert "importing" == caught.value.log_tail[0]
    assert [] == alive_in(here)


def test_the_time_out_names_the_phase_that_did_not_end(here: Path) -> None:
    with pytest.raises(ServerTimeoutError, match="it was importing vLLM"):
        launch(here, "hangs", timeout_s=1)


@pytest.mark.parametrize(
    ("mode", "name", "asked_with"),
    [("good", "other", "k"), ("good", "small", "wrong"), ("other", "small", "k")],
    ids=["unknown model", "wrong key", "not a chat completion"],
)
def test_what_waiting_cannot_cure_fails_at_once(
    here: Path, mode: str, name: str, asked_with: str
) -> None:
    with pytest.raises(ServerRefusedError, match="served model name and the key"):
        launch(here, mode, name=name, key="k", asked_with=asked_with)


def test_the_key_stands_in_no_command_line_and_no_log(here: Path) -> None:
    with launch(here, "good", key="sk-canary") as running:
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in alive_in(here)]
        assert not [line for line in lines if "sk-canary" in line]
        assert "sk-canary" not in running.log.read_text()


def test_settings_of_other_programs_do_not_reach_the_server(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("NEARFAR_GATE_SECRET", "of another gate")
    monkeypatch.setenv("PYTHONPATH", str(here))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with launch(here, "good", key="k") as running:
        seen = json.loads((here / f"environment-{running.target.port}.json").read_text())
    assert {"VLLM_API_KEY": "k"} == seen


PARENT = """
import signal, sys, time
from pathlib import Path
from gpu_backend import server
from gpu_backend.probe import Target
port = int(sys.argv[1])
server.launch([sys.executable, sys.argv[2], str(port), "good"], environment={},
              target=Target("127.0.0.1", port, "small"), log=Path("vllm.log"))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def parent(here: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has started a server, as `nearfar up` does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", PARENT, str(port), str(FAKE)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        yield process
        process.kill()


def test_killing_the_parent_leaves_nothing_behind(
    here: Path, parent: subprocess.Popen[str]
) -> None:
    assert len(alive_in(here)) >= 5
    parent.kill()
    parent.wait()
    assert [] == wait_until_gone(here, within_s=5)


def test_killing_the_guard_ends_the_server_too(here: Path) -> None:
    running = launch(here, "good")
    guard = int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{running.pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{running.pid}").exists()
    running.stop()
    for left in alive_in(here):  # the stand-in's grandchild, which vLLM would end itself
        os.kill(left, signal.SIGKILL)


def test_a_taken_port_is_named_before_anything_is_started(here: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            start_small(here, port)
    assert not (here / "vllm.log").exists()


def test_start_passes_the_flags_and_the_path_of_the_middleware(here: Path) -> None:
    python = here / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH" "$@"\nexit 1\n')
    python.chmod(0o755)
    with pytest.raises(ServerDiedError):
        start_small(here, 0, middleware=("some.gate.Gate",))
    said = (here / "vllm.log").read_text()
    assert said.startswith(f"{server.PACKAGE_ROOT} -m vllm.entrypoints.openai.api_server")
    assert "--middleware some.gate.Gate" in said
    assert "--port 0" not in said


def start_small(here: Path, port: int, middleware: tuple[str, ...] = ()) -> Server:
    return server.start(
        replace(spec.profile("cpu-small"), middleware=middleware),
        python=here / "python",
        log=here / "vllm.log",
        model_dir=here,
        port=port,
    )


def test_a_log_is_followed_however_its_lines_are_split(here: Path) -> None:
    text = "".join(f"INFO {phase.begins_with} …\n" for phase in PHASES if phase.begins_with)
    whole = text.encode()
    for cut in range(len(whole)):
        path = here / "vllm.log"
        path.write_bytes(whole[:cut])
        follower = LogFollower(path)
        follower.read()
        path.write_bytes(whole)
        assert PHASES[-1] == follower.read()


def test_a_log_of_unknown_lines_stays_in_the_first_phase(here: Path) -> None:
    path = here / "vllm.log"
    path.write_bytes(b"\xff\xfe nothing known\n\nstill nothing\n")
    assert PHASES[0] == LogFollower(path).read()
    assert "still nothing" == phases.tail(path)[-1]


def test_an_absent_log_has_no_last_lines(here: Path) -> None:
    assert () == phases.tail(here / "absent.log")
