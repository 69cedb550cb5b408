"""One process at a time in one folder, however the others end."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_backend.errors import InstallBusyError

POLL_S = 0.2


@contextmanager
def held(
    path: Path, *, timeout_s: float, waiting: Callable[[float], None] = lambda _: None
) -> Iterator[None]:
    """Hold the lock file `path`; the kernel gives it back even after kill -9.

    `waiting` is called with the seconds waited so far. Raises InstallBusyError after `timeout_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(file, path, timeout_s, waiting)
        yield
    finally:
        os.close(file)


def _take(file: int, path: Path, timeout_s: float, waiting: Callable[[float], None]) -> None:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as busy:
            waited_s = time.monotonic() - began
            if waited_s > timeout_s:
                raise InstallBusyError(
                    f"Another process has been using {path.parent} for {waited_s:.0f} s.",
                    "wait until it ends, or stop it, and try again.",
                ) from busy
            waiting(waited_s)
            time.sleep(POLL_S)
