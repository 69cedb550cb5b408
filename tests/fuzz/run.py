"""Sends the cases with a bounded number at once, and sums up how they ended."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from . import wire
from .cases import Case, Maker
from .verdict import judge

AT_ONCE = 8
MOST_KEPT = 20


@dataclass(slots=True)
class Outcome:
    """How many ended how, by kind, and the first of those that ended wrongly."""

    sent: int = 0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[tuple[Case, str]] = field(default_factory=list)
    wrong_count: int = 0

    def add(self, case: Case, end: str, problem: str) -> None:
        """Count one."""
        self.sent += 1
        self.ends[(case.kind, end)] += 1
        if problem:
            self.wrong_count += 1
            if len(self.wrong) < MOST_KEPT:
                self.wrong.append((case, problem))


async def run(url: str, maker: Maker, count: int, say: Callable[[str], None]) -> Outcome:
    """Send cases 0 to `count` - 1 to the server at `url`."""
    outcome, numbers = Outcome(), itertools.count()
    parts = urlsplit(url)

    async def work() -> None:
        for number in numbers:
            if number >= count:
                return
            case = maker.case(number)
            heard = await wire.ask(
                parts.hostname or "127.0.0.1",
                parts.port or 80,
                case.sent,
                head=case.method == b"HEAD",
                leave=not case.whole,
            )
            outcome.add(case, *judge(case, heard))
            if outcome.sent % 2_000 == 0:
                say(f"{outcome.sent} sent, {outcome.wrong_count} ended wrongly")

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return outcome
