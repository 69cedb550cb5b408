"""What is known about the running stack of a checkout, for the other commands and for the next."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nearfar.checkout import Checkout
from nearfar.errors import Missing, NearfarError

FILE = "state.json"
LOCK = "stack.lock"
STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class State:
    """A ready stack. `parts` maps a part's name to its process id.

    `gate_redis` is the address of the gate's Redis, password included; empty without a gate.
    """

    endpoint: str
    api_key: str
    model: str
    pid: int
    host: str
    started_at: str
    parts: Mapping[str, int]
    gate_redis: str = field(default="", repr=False)


@contextmanager
def held(checkout: Checkout) -> Iterator[None]:
    """Be the one stack of this run folder; the kernel gives the lock back even after kill -9.

    Raises:
        NearfarError: when a stack is running already.
    """
    path = checkout.make_run() / LOCK
    with path.open("a+") as handle:
        _take(handle.fileno())
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        (checkout.run / FILE).unlink(missing_ok=True)
        try:
            yield
        finally:
            (checkout.run / FILE).unlink(missing_ok=True)


def _take(handle: int) -> None:
    # Another command that looks whether a stack is running holds the lock for an instant.
    deadline = time.monotonic() + 1
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise NearfarError(
                    "A stack of this checkout is running already.",
                    "use it (./nearfar status), or stop it first: ./nearfar down",
                ) from error
            time.sleep(0.05)


def write(checkout: Checkout, state: State) -> None:
    """Publish the state of a stack that is ready."""
    draft = checkout.run / f"{FILE}.{os.getpid()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file, indent=2)
    draft.replace(checkout.run / FILE)


def read(checkout: Checkout) -> State | None:
    """Return the running stack's state, or None where none is running and ready."""
    if not is_running(checkout):
        return None
    try:
        return State(**json.loads((checkout.run / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def require(checkout: Checkout) -> State:
    """Return the running stack's state.

    Raises:
        Missing: when none is running.
    """
    found = read(checkout)
    if found is None:
        raise Missing("No local stack is running.", "./nearfar up, or name one with --endpoint.")
    return found


def is_running(checkout: Checkout) -> bool:
    """Whether a process holds the stack's lock, ready or still starting."""
    return holder(checkout) is not None


def holder(checkout: Checkout) -> int | None:
    """Return the process id of the stack that is running or starting."""
    path = checkout.run / LOCK
    if not path.exists():
        return None
    with path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = handle.read()
            return int(text) if text.isdigit() else None
    return None


def stop(checkout: Checkout) -> bool:
    """End the stack, ready or starting, and wait until it is gone; False where none was running.

    Raises:
        NearfarError: when it does not end in time.
    """
    pid = holder(checkout)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    # The lock goes back a moment before the process is gone.
    while holder(checkout) == pid or is_alive(pid):
        if time.monotonic() > deadline:
            raise NearfarError(
                f"The stack (process {pid}) did not end within {STOP_TIMEOUT_S} s.",
                f"kill -9 {pid}; its parts end with it.",
            )
        time.sleep(0.1)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs now; one that ended and was not collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # a Unix without /proc
    return stat.rpartition(")")[2].split()[0] != "Z"
