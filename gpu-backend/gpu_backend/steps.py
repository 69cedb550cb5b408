"""Runs one long program at a time, and tells what it does while it runs."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gpu_backend.progress import Progress, ProgressCallback, State

TICK_S = 1.0
TAIL_LINES = 20
STOP_GRACE_S = 5.0

# uv announces "Downloading torch (507.1MiB)" and later " Downloaded torch" where it has no
# terminal; small packages are not announced, so the sum is a lower bound.
_DOWNLOADING = re.compile(r"^\s*Downloading (\S+) \(([\d.]+)([KMG]?i?)B\)")
_DOWNLOADED = re.compile(r"^\s*Downloaded (\S+)")
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(slots=True)
class Downloads:
    """Bytes that uv has announced and finished, read from its lines."""

    announced: dict[str, int] = field(default_factory=dict)
    done_bytes: int = 0

    def read(self, line: str) -> None:
        if found := _DOWNLOADING.match(line):
            name, size, unit = found.groups()
            self.announced[name] = int(float(size) * _UNITS.get(unit, 1))
        elif found := _DOWNLOADED.match(line):
            self.done_bytes += self.announced.get(found[1], 0)

    @property
    def total_bytes(self) -> int | None:
        return sum(self.announced.values()) or None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: its exit status (None: stopped after its time-out) and last lines."""

    status: int | None
    tail: tuple[str, ...]
    output: str

    @property
    def last_line(self) -> str:
        return self.tail[-1] if self.tail else "it said nothing"


@dataclass(frozen=True, slots=True)
class Step:
    """A named piece of work with the time it usually takes and the time it may take."""

    name: str
    doing: str
    usual_s: float
    timeout_s: float


def run(
    step: Step,
    argv: Sequence[str | Path],
    *,
    progress: ProgressCallback,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a program to its end, reporting once a second; nothing is left running on any way out."""
    began, downloads = time.monotonic(), Downloads()

    def tell(state: State) -> None:
        progress(_report(step, state, time.monotonic() - began, downloads))

    tell("started")
    process = subprocess.Popen(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
    )
    try:
        outcome = _follow(process, step, downloads, lambda: tell("running"))
    finally:
        _stop(process)
    tell("done")
    return outcome


def _report(step: Step, state: State, elapsed_s: float, downloads: Downloads) -> Progress:
    total = downloads.total_bytes
    return Progress(
        step=step.name,
        doing=step.doing,
        state=state,
        usual_s=step.usual_s,
        elapsed_s=elapsed_s,
        bytes_done=None if total is None else downloads.done_bytes,
        bytes_total=total,
    )


def _follow(
    process: subprocess.Popen[str], step: Step, downloads: Downloads, tick: Callable[[], None]
) -> Outcome:
    lines: queue.Queue[str | None] = queue.Queue()
    assert process.stdout is not None  # noqa: S101 - asked for with PIPE
    threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
    output: list[str] = []
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    deadline = time.monotonic() + step.timeout_s
    while True:
        try:
            line = lines.get(timeout=TICK_S)
        except queue.Empty:
            line = ""
        if line is None:
            return Outcome(process.wait(), tuple(tail), "".join(output))
        if line.strip():
            output.append(line)
            tail.append(line.rstrip())
            downloads.read(line)
        tick()
        if time.monotonic() > deadline:
            return Outcome(None, tuple(tail), "".join(output))


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
