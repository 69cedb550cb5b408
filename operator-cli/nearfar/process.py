"""The processes of a stack: each in its own process group, with its output in a log file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nearfar.errors import Missing, PartDied
from nearfar.guard import Guard, end_groups
from nearfar.interrupt import undisturbed
from nearfar.logs import last_lines

# How long a part may take to end by itself.
STOP_GRACE_S = 5.0


class Part(Protocol):
    """One running part of the stack; the others cannot do without it if it is `needed`."""

    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def log(self) -> Path: ...
    @property
    def needed(self) -> bool: ...

    def check(self) -> None:
        """Raise PartDied if it has ended."""
        ...

    def stop(self) -> None:
        """End it and everything that it started."""
        ...


@dataclass(frozen=True, slots=True)
class Child:
    """A part that we started ourselves."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]
    guard: Guard
    needed: bool = True

    @property
    def pid(self) -> int:
        return self.popen.pid

    def check(self) -> None:
        """Raise with its last lines if it has ended."""
        code = self.popen.poll()
        if code is None:
            return
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise PartDied(
            f"The part '{self.name}' {how}.",
            f"read {self.log}, or run ./nearfar doctor.",
            last_lines(self.log),
        )

    def stop(self) -> None:
        """End the whole process group and forget it."""
        # A group's leader that was not waited for keeps the group alive for ever: wait beside it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=STOP_GRACE_S)
        end_groups([self.pid], grace_s=1)
        self.popen.wait()
        self.guard.release(self.pid)


def start(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    guard: Guard,
    cwd: Path,
    needed: bool = True,
) -> Child:
    """Start one part; its output goes to `log`, which begins anew."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    # An interrupt between these two lines would leave a process that nobody knows of.
    with undisturbed():
        try:
            popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise Missing(
                f"{argv[0]} could not be started: {error.strerror}.", "./nearfar doctor"
            ) from error
        finally:
            os.close(handle)
        guard.watch(popen.pid)
    return Child(name, log, popen, guard, needed)


def wait_until(ready: Callable[[], bool], part: Part, timeout_s: float, what: str) -> None:
    """Poll until `ready`, as long as the part lives and the time is not up."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        part.check()
        if time.monotonic() > deadline:
            raise PartDied(
                f"The part '{part.name}' {what} within {timeout_s:g} s.",
                f"read {part.log}.",
                last_lines(part.log),
            )
        time.sleep(0.05)
