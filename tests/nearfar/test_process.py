"""Real processes: what starts must end, whatever ends its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearfar import process
from nearfar.checkout import here, python_path
from nearfar.errors import Missing, PartDied
from nearfar.guard import Guard, groups_left

# A parent with a child of its own; both write their process ids and then wait.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
# Starts a family as `nearfar up` starts its parts, and waits to be killed.
SUPERVISOR = """
import os, sys, time
from pathlib import Path
from nearfar import process
from nearfar.guard import Guard
folder = Path(sys.argv[1])
argv = [sys.executable, "-c", sys.argv[2]]
process.start("family", argv, log=folder / "log", env=os.environ, guard=Guard(), cwd=folder)
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard()
    yield made
    made.close()


def start(guard: Guard, folder: Path, code: str) -> process.Child:
    return process.start(
        "part",
        [sys.executable, "-c", code],
        log=folder / "part.log",
        env=os.environ,
        guard=guard,
        cwd=folder,
    )


def lines_of(log: Path, count: int) -> list[str]:
    """Wait for the first lines of a log."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = log.read_text().splitlines() if log.exists() else []
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{log} has no {count} lines")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet collected does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.02)


def test_stopping_a_part_ends_its_children_too(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, FAMILY)
    pids = [int(word) for word in lines_of(part.log, 1)[0].split()]
    assert part.pid == pids[0]
    part.stop()
    wait_gone(pids)


def test_a_part_that_ignores_sigterm_is_killed(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_GRACE_S", 0.2)
    part = start(guard, tmp_path, STUBBORN)
    lines_of(part.log, 1)
    part.stop()
    assert -signal.SIGKILL == part.popen.returncode


def test_killing_the_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    """kill -9 cannot be caught: the guard sees its input end."""
    supervisor = subprocess.Popen(
        [sys.executable, "-P", "-c", SUPERVISOR, str(tmp_path), FAMILY],
        env=os.environ | {"PYTHONPATH": python_path(here())},
        stdout=subprocess.PIPE,
    )
    assert supervisor.stdout is not None
    with supervisor.stdout:
        assert b"started\n" == supervisor.stdout.readline()
        pids = [int(word) for word in lines_of(tmp_path / "log", 1)[0].split()]
        supervisor.kill()
        supervisor.wait()
    wait_gone(pids)


def test_a_dead_part_is_told_with_its_code_and_last_lines(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, "print('one'); print('two'); raise SystemExit(7)")
    part.popen.wait()
    with pytest.raises(PartDied) as caught:
        part.check()
    assert "The part 'part' ended with exit code 7." == caught.value.message
    assert ("one", "two") == caught.value.last_lines
    assert 3 == caught.value.exit_code
    part.stop()


def test_a_part_that_a_signal_ended_is_told_with_the_signal(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, STUBBORN)
    os.kill(part.pid, signal.SIGKILL)
    part.popen.wait()
    with pytest.raises(PartDied, match="was ended by signal 9"):
        part.check()
    part.stop()


def test_waiting_for_a_part_ends_when_it_dies(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, "raise SystemExit(1)")
    with pytest.raises(PartDied, match="exit code 1"):
        process.wait_until(lambda: False, part, 20, "did not answer")
    part.stop()


def test_waiting_for_a_part_ends_when_the_time_is_up(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, STUBBORN)
    with pytest.raises(PartDied, match=r"did not answer within 0.2 s"):
        process.wait_until(lambda: False, part, 0.2, "did not answer")
    os.killpg(part.pid, signal.SIGKILL)
    part.stop()


def test_a_log_is_for_its_owner_alone(guard: Guard, tmp_path: Path) -> None:
    part = start(guard, tmp_path, "pass")
    assert 0o600 == part.log.stat().st_mode & 0o777
    part.popen.wait()
    part.stop()


def test_a_program_that_does_not_exist_is_missing(guard: Guard, tmp_path: Path) -> None:
    with pytest.raises(Missing, match="could not be started"):
        process.start(
            "part",
            [str(tmp_path / "absent")],
            log=tmp_path / "log",
            env={},
            guard=guard,
            cwd=tmp_path,
        )


def test_the_guard_forgets_groups_that_were_released() -> None:
    assert {2} == groups_left(["+1\n", "+2\n", "-1\n"])
