"""What people see: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_backend.progress import Progress
from nearfar.errors import NearfarError, PartDied

# Without a terminal a long step is told again this often.
REPEAT_S = 30.0


def result(text: str) -> None:
    """Write a result for people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def piece(text: str) -> None:
    """Write a part of a result at once, as it comes."""
    sys.stdout.write(text)
    sys.stdout.flush()


def result_json(document: Any) -> None:
    """Write a result for programs: one line of JSON."""
    result(json.dumps(document, ensure_ascii=False))


def say(text: str) -> None:
    """Tell what is going on."""
    sys.stderr.write(f"nearfar: {text}\n")
    sys.stderr.flush()


def remark(text: str) -> None:
    """Tell something about the result, under it."""
    sys.stderr.write(f"({text})\n")
    sys.stderr.flush()


def log_lines(name: str, lines: Iterable[str]) -> None:
    """Pass on a part's lines, each with the part's name before it."""
    for line in lines:
        sys.stderr.write(f"{name:>7} | {line}\n")


def error(problem: NearfarError) -> None:
    """Write an error: what went wrong, a dead part's last lines, the next step."""
    if isinstance(problem, PartDied):
        for line in problem.last_lines:
            sys.stderr.write(f"    | {line}\n")
    sys.stderr.write(f"nearfar: {problem.message}\n")
    if problem.next_step:
        sys.stderr.write(f"Next step: {problem.next_step}\n")


@contextmanager
def progress() -> Iterator[Callable[[Progress], None]]:
    """Give a callback that shows long steps: a line that moves, or a line now and then."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Teller().tell
        return
    with console.status("") as status:

        def show(report: Progress) -> None:
            if report.state == "done":
                console.print(f"[dim]nearfar:[/] {escape(describe(report))}", highlight=False)
            else:
                status.update(escape(describe(report)))

        yield show


class _Teller:
    """Progress without a terminal: starts, ends, and a sign of life in between."""

    def __init__(self) -> None:
        self._last_s = float("-inf")

    def tell(self, report: Progress) -> None:
        now_s = time.monotonic()
        if report.state == "running" and now_s - self._last_s < REPEAT_S:
            return
        self._last_s = now_s
        say(describe(report))


def describe(report: Progress) -> str:
    """Say what a step does, for how long it has, how long it usually takes, and how far it is."""
    parts = [report.doing]
    if report.state == "done":
        return f"{report.doing}: done in {report.elapsed_s:.0f} s"
    if report.state == "running":
        parts.append(f"{report.elapsed_s:.0f} s")
    if report.usual_s is not None:
        parts.append(f"usually about {report.usual_s:.0f} s")
    if report.bytes_total:
        parts.append(f"{(report.bytes_done or 0) / 1e6:.0f} of {report.bytes_total / 1e6:.0f} MB")
    return ", ".join(parts)
