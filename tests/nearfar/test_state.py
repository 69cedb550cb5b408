"""The state of a running stack, and the lock that says that it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearfar import state
from nearfar.checkout import Checkout, here, python_path
from nearfar.errors import Missing, NearfarError
from nearfar.state import State

# Holds the lock as `nearfar up` does, and ends on SIGTERM.
HOLDER = """
import sys, time
from pathlib import Path
from nearfar import state
from nearfar.checkout import Checkout
from nearfar.interrupt import stop_on_signals
with stop_on_signals(), state.held(Checkout(Path("/"), Path(sys.argv[1]))):
    print("held", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
exec(sys.argv[2])
sys.exit(130)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, tmp_path / "run")


def sample(pid: int) -> State:
    return State(
        endpoint="http://127.0.0.1:3000",
        api_key="nf_key",
        model="mock",
        pid=pid,
        host="wasmtime",
        started_at="2026-01-01T00:00:00+00:00",
        parts={"edge": 1},
    )


@contextmanager
def other_holder(checkout: Checkout, after: str = "") -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(checkout.run), after],
        env=os.environ | {"PYTHONPATH": python_path(here())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        assert b"held\n" == process.stdout.readline()
        yield process
        process.kill()
        process.wait()


def test_a_state_is_read_as_it_was_written(checkout: Checkout) -> None:
    with state.held(checkout):
        assert state.read(checkout) is None
        state.write(checkout, sample(os.getpid()))
        assert sample(os.getpid()) == state.read(checkout)


def test_a_state_is_for_its_owner_alone(checkout: Checkout) -> None:
    with state.held(checkout):
        state.write(checkout, sample(1))
        assert 0o600 == (checkout.run / state.FILE).stat().st_mode & 0o777
        assert 0o700 == checkout.run.stat().st_mode & 0o777


def test_nothing_is_running_once_the_stack_has_ended(checkout: Checkout) -> None:
    with state.held(checkout):
        state.write(checkout, sample(os.getpid()))
    assert not state.is_running(checkout)
    with pytest.raises(Missing, match="No local stack is running"):
        state.require(checkout)


def test_a_second_stack_of_the_same_checkout_is_refused(checkout: Checkout) -> None:
    with (
        other_holder(checkout),
        pytest.raises(NearfarError, match="running already"),
        state.held(checkout),
    ):
        pass


def test_looking_at_a_stack_does_not_hinder_its_start(checkout: Checkout) -> None:
    assert not state.is_running(checkout)
    with state.held(checkout):
        assert os.getpid() == state.holder(checkout)


def test_a_killed_stack_is_not_running(checkout: Checkout) -> None:
    """Its files stay behind; the kernel takes back its lock."""
    with other_holder(checkout) as process:
        state.write(checkout, sample(process.pid))
        assert state.read(checkout) is not None
        process.kill()
        process.wait()
        assert state.read(checkout) is None


def test_stopping_ends_the_process_that_holds_the_stack(checkout: Checkout) -> None:
    with other_holder(checkout) as process:
        assert process.pid == state.holder(checkout)
        assert state.stop(checkout)
        assert 0 != process.wait()
        assert -signal.SIGKILL != process.returncode


def test_stopping_waits_until_the_process_is_gone(checkout: Checkout) -> None:
    """Its lock is free a moment earlier, here half a second."""
    with other_holder(checkout, after="time.sleep(0.5)") as process:
        assert state.stop(checkout)
        assert not state.is_alive(process.pid)


def test_stopping_nothing_is_no_error(checkout: Checkout) -> None:
    assert not state.stop(checkout)


def test_a_process_is_known_to_be_alive_or_gone() -> None:
    assert state.is_alive(os.getpid())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not state.is_alive(ended.pid), "it has ended, though nobody collected it"
    ended.wait()
    assert not state.is_alive(ended.pid)
