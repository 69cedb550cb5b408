"""One soak: requests with a bounded number at once, trouble beside them, and the books after."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from fakes.record import Record
from fakes.upstream import UpstreamThread
from gpu_backend.gate.usage import Usage
from stack.caller import TIMEOUT_S
from stack.edges import UPSTREAM_KEY
from stack.whole import Whole

from .asking import Outcome, ask
from .plan import CONTEXT_TOKENS, MAX_BODY_BYTES, SCRIPTS, USUAL, Maker, generated
from .trouble import Trouble

AT_ONCE = 8
SETTLED_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Book:
    """One tenant's tokens: as the upstream counts them, and as the gate's usage has them."""

    tenant: str
    upstream: int
    usage: Usage | None

    @property
    def agrees(self) -> bool:
        """Whether both are the same, and nothing of an aborted answer is called exact."""
        return self.usage is not None and self.upstream == self.usage.generated


@dataclass(slots=True)
class Soak:
    """What happened."""

    outcomes: list[Outcome] = field(default_factory=list)
    trouble: dict[str, int] = field(default_factory=dict)
    books: list[Book] = field(default_factory=list)
    unexplained: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Sent, how they ended, and what must be zero."""
        ends = Counter[str](outcome.end for outcome in self.outcomes)
        crossed = sum(outcome.crossed for outcome in self.outcomes)
        names = ("answered", "refused", "failed", "aborted")
        ended = {name: ends[name] for name in names}
        return {"sent": len(self.outcomes), **ended, "crossed": crossed, "lost": ends["lost"]}

    @property
    def right(self) -> bool:
        """Whether nothing crossed, was lost or failed without cause, and the books agree."""
        counts = self.counts
        wrong = counts["crossed"] + counts["lost"] + len(self.unexplained)
        return not wrong and all(book.agrees for book in self.books)


def soak(count: int, run: Path, say: Callable[[str], None], seed: int = 0) -> Soak:
    """Send so many requests through the whole stack."""
    maker = Maker(seed=seed)
    with ExitStack() as exits:
        upstream = exits.enter_context(UpstreamThread(USUAL, api_key=UPSTREAM_KEY))
        for word, script in SCRIPTS.items():
            upstream.mark(word, script)
        whole = exits.enter_context(
            Whole(
                run,
                upstream.url,
                gate_settings={"max_running": 32, "max_waiting": 16, "lease_s": 3},
                edge_settings={"max_body_bytes": MAX_BODY_BYTES},
                model={"context_tokens": CONTEXT_TOKENS},
            )
        )
        urls = [whole.edge().url, whole.edge(reuse_count=1).url]
        trouble = Trouble(whole, upstream, seed)
        began_s = time.monotonic()
        found = Soak(asyncio.run(_ask_all(count, urls, maker, trouble, say)))
        found.seconds = time.monotonic() - began_s
        found.trouble = dict(trouble.counts)
        found.unexplained = [each for each in found.outcomes if not _explained(each, trouble)]
        found.books = _books(maker, whole, upstream.requests)
    return found


async def _ask_all(
    count: int, urls: list[str], maker: Maker, trouble: Trouble, say: Callable[[str], None]
) -> list[Outcome]:
    numbers, outcomes, over = itertools.count(), list[Outcome](), asyncio.Event()
    markers = {caller.marker for caller in maker.callers}
    limits = httpx.Limits(max_connections=None)

    async def work() -> None:
        for number in numbers:
            if number >= count:
                return
            wanted = maker.wanted(number)
            foreign = markers - {wanted.caller.marker}
            outcomes.append(await ask(session, urls[number % len(urls)], wanted, foreign))
            if len(outcomes) % 1_000 == 0:
                say(f"{len(outcomes)} of {count} sent")

    breaking = asyncio.create_task(trouble.go_on(over))
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S, limits=limits) as session:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    over.set()
    await breaking
    return outcomes


def _explained(outcome: Outcome, trouble: Trouble) -> bool:
    """A failure has a cause: the upstream was told to fail, or it was away."""
    if outcome.end != "failed" or outcome.wanted.kind.startswith("fails"):
        return True
    return trouble.met("upstream", outcome.began_s, outcome.ended_s)


def _books(maker: Maker, whole: Whole, records: list[Record]) -> list[Book]:
    """Each tenant's books as `nearfar usage` shows them, once they agree or the time is up."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while True:
        usage = whole.redis.usage()
        books = [
            Book(each.tenant, generated(records, each.marker), usage.get(each.key_id))
            for each in maker.callers
        ]
        if all(book.agrees for book in books) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    shown = whole.redis.shown_usage()
    return [
        Book(book.tenant, book.upstream, shown.get(each.key_id))
        for book, each in zip(books, maker.callers, strict=True)
    ]
