"""Starts one program and leaves nothing of it behind, however its own parent ends.

Runs by path as a process between nearfar and vLLM, with the standard library alone:
`python guard.py GRACE_S ARGV...`. It prints the program's process id, then waits for one of
three ends: the program exits (its status is passed on), standard input closes (the parent is
gone, even by kill -9) or SIGTERM comes. Then every descendant is ended: vLLM starts an engine
and a worker process, and orphans come to the guard, since it is their subreaper.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

POLL_S = 0.1
_ENDING = {signal.SIGTERM, signal.SIGINT}


def main(grace_s: float, argv: list[str]) -> int:
    """Run `argv` to its end and return an exit status."""
    stop_read, stop_write = os.pipe()
    os.set_blocking(stop_write, False)
    signal.set_wakeup_fd(stop_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, _noted)
    prctl = _prctl()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Should the guard itself be killed, the kernel asks the program to end, and vLLM then ends
    # its own processes (SIGKILL would orphan them).
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    print(child.pid, flush=True)
    os.close(1)
    _wait(child, stop_read)
    _end_all(child, grace_s)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _noted(number: int, frame: object) -> None:
    """Let the wake-up pipe tell; without a handler the signal would end the guard."""


def _prctl() -> Callable[[int, int], int]:
    library = ctypes.CDLL(None, use_errno=True)
    return lambda option, value: int(library.prctl(option, int(value), 0, 0, 0))


def _wait(child: "subprocess.Popen[bytes]", stop_read: int) -> None:
    """Return when the child has ended or the guard is to end it."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(stop_read, selectors.EVENT_READ)
        while child.poll() is None:
            for key, _ in selector.select():
                if key.fd == 0 and not os.read(0, 1024):
                    return
                if key.fd == stop_read and _ENDING & set(os.read(stop_read, 64)):
                    return


def _end_all(child: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """SIGTERM to the child, which ends its own; then to what it left; SIGKILL after the grace."""
    deadline = time.monotonic() + grace_s
    asked = {child.pid}
    if child.poll() is None:
        child.terminate()
    while left := _reap(child):
        if time.monotonic() > deadline:
            _signal(left, signal.SIGKILL)
        elif child.returncode is not None:
            _signal(left - asked, signal.SIGTERM)
            asked |= left
        time.sleep(POLL_S)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap(child: "subprocess.Popen[bytes]") -> set[int]:
    """Collect what has ended, orphans included, and return the descendants still alive."""
    child.poll()
    found = _descendants()
    for pid in found - {child.pid}:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    child.poll()
    return _descendants()


def _descendants() -> set[int]:
    """Every process below this one, from the parents that /proc names."""
    below: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The second field is a name in parentheses that may hold spaces; parent comes 4th.
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(status.parent.name))
    found: set[int] = set()
    open_ = [os.getpid()]
    while open_:
        children = below.get(open_.pop(), [])
        found.update(children)
        open_.extend(children)
    return found


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
