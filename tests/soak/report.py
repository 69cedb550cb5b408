"""What a soak found, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .run import Soak

_SHOWN = 10


def lines(found: Soak) -> Iterator[str]:
    """How each kind ended, the trouble, the books, what went wrong; the counts come last."""
    kinds: dict[str, Counter[str]] = {}
    for outcome in found.outcomes:
        end = outcome.cache if outcome.cache == "hit" else outcome.end
        kinds.setdefault(outcome.wanted.kind, Counter())[end] += 1
    for kind, ends in sorted(kinds.items()):
        yield f"{kind:20} {', '.join(f'{end} {n}' for end, n in sorted(ends.items()))}"
    yield "broken and mended: " + ", ".join(f"{k} {n} times" for k, n in found.trouble.items())
    for book in found.books:
        told = "none" if book.usage is None else f"{book.usage.generated}"
        more = "" if book.usage is None else f", estimated of aborted ones {book.usage.estimated}"
        agrees = "equal" if book.agrees else "NOT EQUAL"
        yield f"{book.tenant}: upstream {book.upstream} tokens, usage {told}: {agrees}{more}"
    wrong = [o for o in found.outcomes if o.end == "lost" or o.crossed] + found.unexplained
    for outcome in wrong[:_SHOWN]:
        about = f"{outcome.wanted.number} ({outcome.wanted.kind}) {outcome.end}"
        yield f"WRONG request {about}: {outcome.why}"
    counts = ", ".join(f"{name} {n}" for name, n in found.counts.items())
    yield f"{counts}; failed without cause {len(found.unexplained)}; {found.seconds:.0f} s"
