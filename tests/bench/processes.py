"""Starts the servers of a measurement, finds their tools, reads their memory and time."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class NotAvailable(Exception):
    """A program that a part needs is not there; the message says what to do."""


def tool(name: str) -> Path:
    """A program beside this interpreter or on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise NotAvailable(f"{name} is not installed")
    return Path(found)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """The servers of one run; all are stopped at its end, whatever happens."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._logs.mkdir(parents=True, exist_ok=True)
        self._running: list[subprocess.Popen[bytes]] = []
        self.start_s: dict[int, float] = {}  # by pid: from its start to its first answer

    def start(
        self,
        name: str,
        arguments: Sequence[str | Path],
        ready_url: str,
        *,
        environment: Mapping[str, str] | None = None,
        patience_s: float = 60.0,
    ) -> int:
        """Starts a server, waits until it answers HTTP at `ready_url` and returns its pid."""
        log = self._logs / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        self._running.append(process)
        began = time.monotonic()
        deadline = began + patience_s
        while not _answers(ready_url):
            if process.poll() is not None:
                raise NotAvailable(
                    f"{name} ended with {process.returncode}; its output is in {log}"
                )
            if time.monotonic() > deadline:
                raise NotAvailable(f"{name} did not answer in {patience_s:.0f} s; see {log}")
            time.sleep(0.02)
        self.start_s[process.pid] = time.monotonic() - began
        return process.pid

    def stop(self) -> None:
        """Ends all, in the reverse order."""
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - the bench's own addresses
            return True
    except urllib.error.HTTPError:
        return True  # any answer is one
    except OSError:
        return False


def rss_bytes(pid: int) -> int:
    """Resident memory of a process and its children (proc_pid_statm(5)); 0 when it is gone."""
    return sum(int(fields[1]) * PAGE_BYTES for fields in _each(pid, "statm"))


def pss_bytes(pid: int) -> int:
    """Proportional memory of a process and its children (proc_pid_smaps(5)); 0 when gone."""
    each = (fields[fields.index("Pss:") + 1] for fields in _each(pid, "smaps_rollup"))
    return sum(int(kib) * 1024 for kib in each)


def cpu_s(pid: int) -> float:
    """User and system time of a process and its children so far (proc_pid_stat(5))."""
    times = (int(fields[13]) + int(fields[14]) for fields in _each(pid, "stat"))
    return sum(times) / TICKS_A_SECOND


def _each(pid: int, name: str) -> list[list[str]]:
    """The fields of one file of /proc for a process and its children; none when it is gone."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        texts = [Path(f"/proc/{each}/{name}").read_text() for each in (pid, *children)]
    except OSError:
        return []
    # A program's name stands in parentheses and may hold spaces.
    return [re.sub(r"\(.*\)", "name", text).split() for text in texts]
