"""Shows how far a run is: a bar in a terminal, a line now and then elsewhere. All on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from nearfar import console
from nearfar.load.plan import Plan
from nearfar.runs import Header, Sample

# The bar is drawn by a thread beside the load: seldom, so that it is not what is measured.
_DRAWS_PER_S = 2


class Watch(Protocol):
    """Hears of a run as it happens."""

    def began(self, header: Header) -> None:
        """The first request was answered, and the load begins."""

    def saw(self, sample: Sample) -> None:
        """A request has ended."""


@contextmanager
def watching(plan: Plan) -> Iterator[Watch]:
    """Give what shows a run of this plan."""
    shown = Console(stderr=True)
    if not shown.is_terminal:
        yield _Lines(plan)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=shown, refresh_per_second=_DRAWS_PER_S) as progress:
        yield _Bar(plan, progress)


class _Count:
    """What both have: how many ended, and what becomes of them in words."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.measured = self.failed = self.warming = 0
        self.last = ""

    def count(self, sample: Sample) -> None:
        if sample.phase == "warmup":
            self.warming += 1
            return
        self.measured += 1
        if not sample.ok:
            self.failed += 1
            self.last = sample.error.code if sample.error else sample.outcome

    def told(self) -> str:
        if not self.measured:
            return f"warming up, {self.warming} done"
        total = self.plan.total
        of = f" of {total}" if total is not None else ""
        failed = f", {self.failed} failed (last: {self.last})" if self.failed else ""
        return f"{self.measured}{of} measured{failed}"


class _Bar(_Count):
    def __init__(self, plan: Plan, progress: Progress) -> None:
        super().__init__(plan)
        self._progress = progress
        self._task: TaskID = progress.add_task("measuring", total=None, told="asking once")
        self._began_s = 0.0

    def began(self, header: Header) -> None:
        total = self.plan.total or header.load.duration_s
        self._progress.update(self._task, total=total, told=self.told())

    def saw(self, sample: Sample) -> None:
        self.count(sample)
        if sample.phase == "measured" and not self._began_s:
            self._began_s = sample.sent_s
        done = self.measured if self.plan.total else (sample.end_s or 0.0) - self._began_s
        self._progress.update(self._task, completed=done if self.measured else 0, told=self.told())


class _Lines(_Count):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._last_s = 0.0

    def began(self, header: Header) -> None:
        self._last_s = time.monotonic()
        console.say(f"measuring {header.target.url} as {header.run}")

    def saw(self, sample: Sample) -> None:
        self.count(sample)
        if time.monotonic() - self._last_s >= console.REPEAT_S:
            self._last_s = time.monotonic()
            console.say(self.told())
