"""Two tenants: what one of them asks after the other did, beside what nobody asked.

other's    the other tenant asked it before, so its answer is in the store under that tenant
underway   the other tenant's answer to it is being streamed at that moment
own        the control: the tenant asked it itself before, which must be told apart
planted    the control: the model server takes a little longer
"""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfar import process
from nearfar.checkout import here
from nearfar.guard import Guard
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edge
from stack.whole import Whole

from .judge import TOGETHER, Timing, allowed, judged
from .probe import Answer, Probe

PLANTED_MS = 2.0
FIRST_CONTENT_MS = 5.0
# `anew`: what the fake has put together once it would send sooner the second time, whoever asks, as
# a model server does that shares its cache between tenants.
PACE: dict[str, Any] = {
    "first_content_ms": FIRST_CONTENT_MS,
    "gap_ms": 2.0,
    "chunks": 6,
    "anew": True,
}
READY_S = 20
# What may differ between any two answers; everything else in a head must be the same.
OWN_HEADERS = frozenset({"x-request-id", "server-timing", "date"})

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one kind of question gave away. A control must be told apart, the others must not."""

    kind: str
    pairs: int
    figures: Mapping[str, float]
    same_heads: bool
    control: bool = False

    @property
    def right(self) -> bool:
        """Whether it is as it must be."""
        if self.control:
            return abs(self.figures[TOGETHER] - 0.5) > allowed(self.pairs)
        apart = max(abs(figure - 0.5) for figure in self.figures.values())
        return self.same_heads and apart <= allowed(self.pairs)


def tenancy(
    pairs: int, run: Path, say: Say, seed: int = 0, planted_ms: float = PLANTED_MS
) -> list[Finding]:
    """Ask so many pairs of each kind; controls and `underway` take a quarter of them."""
    with (
        _upstream(run, planted_ms) as url,
        Whole(run, url, gate_settings={"max_running": 64}) as whole,
    ):
        edge = whole.edge(guardrails="standard@1")
        asking = _Asking(edge, random.Random(seed))  # noqa: S311 - for an order, not a secret
        some = max(40, pairs // 4)
        with asking:
            asking.warm_up()
            return [
                asking.compare("other's", pairs, asking.others, say),
                asking.compare("underway", some, asking.underway, say),
                asking.compare("own", some, asking.own, say, control=True),
                asking.compare("planted", some, asking.planted, say, control=True),
            ]


class _Asking:
    """The tenant that wants to know, and the other one."""

    def __init__(self, edge: Edge, order: random.Random) -> None:
        self._order = order
        self._tenant, self._other = (Probe(edge.url, Caller()) for _ in range(2))

    def __enter__(self) -> None:
        for probe in (self._tenant, self._other):
            probe.__enter__()

    def __exit__(self, *_: object) -> None:
        for probe in (self._tenant, self._other):
            probe.__exit__(None, None, None)

    def warm_up(self) -> None:
        """The first requests of an edge are slower than those after."""
        for _ in range(40):
            for probe in (self._tenant, self._other):
                probe.ask(_question())

    def compare(
        self,
        kind: str,
        pairs: int,
        ask: Callable[[bool], Answer],
        say: Say,
        *,
        control: bool = False,
    ) -> Finding:
        """Ask both of each pair right after one another, in an order by chance."""
        misses, others = list[Timing](), list[Timing]()
        same = True
        for number in range(pairs):
            answers: dict[bool, Answer] = {}
            for is_other in self._order.sample((False, True), 2):
                answers[is_other] = ask(is_other)
            misses.append(answers[False].timing)
            others.append(answers[True].timing)
            same = same and _head(answers[False]) == _head(answers[True])
            if number % 100 == 99:
                say(f"{kind}: {number + 1} of {pairs} pairs")
        return Finding(kind, pairs, judged(misses, others), same, control)

    def others(self, is_other: bool) -> Answer:
        """The other tenant asks first in both cases: the same question, or one of its own."""
        text = _question()
        self._other.ask(text if is_other else _question())
        return self._tenant.ask(text)

    def underway(self, is_other: bool) -> Answer:
        """The other tenant's stream runs in both cases, of the same question or of another."""
        text = _question()
        theirs = text if is_other else _question()
        asking = threading.Thread(target=self._other.ask, args=(theirs,))
        asking.start()
        try:
            return self._tenant.ask(text)
        finally:
            asking.join()

    def own(self, is_other: bool) -> Answer:
        """What the tenant asked itself before is a hit."""
        text = _question()
        self._tenant.ask(text if is_other else _question())
        return self._tenant.ask(text)

    def planted(self, is_other: bool) -> Answer:
        """A server that says its first word later."""
        self._other.ask(_question())
        return self._tenant.ask(_question("later" if is_other else "other"))


def _question(word: str = "other") -> str:
    """A question that nobody asked, of the same length as any other."""
    return f"{word} {secrets.token_hex(12)} one two three four"


def _head(answer: Answer) -> dict[str, str]:
    """What of a head must not differ; of the rest only the names."""
    return {name: "" if name in OWN_HEADERS else value for name, value in answer.headers.items()}


@contextmanager
def _upstream(run: Path, planted_ms: float) -> Iterator[str]:
    """The fake upstream as a process, so that it does not share the measuring one's time."""
    log = run / "upstream.log"
    later = {**PACE, "first_content_ms": FIRST_CONTENT_MS + planted_ms}
    tests = Path(__file__).parents[1]
    guard = Guard()
    child = process.start(
        "upstream",
        [
            *(sys.executable, "-m", "fakes.upstream", "--api-key", UPSTREAM_KEY),
            *("--marked", json.dumps({"later ": later, "other ": PACE})),
        ],
        log=log,
        env={"PATH": os.defpath, "PYTHONPATH": str(tests)},
        guard=guard,
        cwd=here().root,
    )
    try:
        process.wait_until(lambda: bool(log.read_text()), child, READY_S, "did not listen")
        yield str(json.loads(log.read_text().splitlines()[0])["url"])
    finally:
        child.stop()
        guard.close()
