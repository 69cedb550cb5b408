"""A small process that outlives its parent just long enough to end what the parent started.

The parent writes the process group of each child to the guard's standard input. When that input
ends, whatever ended it (a clean stop, a crash, kill -9), the guard ends every group that is left.
It works on any Unix and reaches grandchildren, which a parent-death signal does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

GRACE_S = 5.0


class Guard:
    """The parent's end: tell it about each process group, close it after they have ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def watch(self, group: int) -> None:
        """End this process group if the parent goes away."""
        self._write(f"+{group}\n")

    def release(self, group: int) -> None:
        """Forget a group that has ended, since its number may be given to another."""
        self._write(f"-{group}\n")

    def close(self) -> None:
        """End what is still watched, and wait for it."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - Popen was asked for a pipe
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            # Somebody killed the guard; the parent still ends its children when it stops.
            return


def groups_left(lines: Iterable[str]) -> set[int]:
    """Return the groups that were named and not released, once the lines end."""
    left: set[int] = set()
    for line in lines:
        group = int(line[1:])
        if line[0] == "+":
            left.add(group)
        else:
            left.discard(group)
    return left


def end_groups(groups: Iterable[int], grace_s: float = GRACE_S) -> None:
    """Ask each process group to end, and kill what is left of them after `grace_s`."""
    left = {group for group in groups if _signal(group, signal.SIGTERM)}
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = {group for group in left if _signal(group, 0)}
    for group in left:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Whether the group was there to take the signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_groups(groups_left(sys.stdin))
