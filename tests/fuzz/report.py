"""What a fuzz run found, as lines of text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .run import Outcome

_SHOWN_BYTES = 600
_SHOWN_FAULTS = 20


def lines(outcome: Outcome, faults: Sequence[str]) -> Iterator[str]:
    """A line a kind with how many ended how, then what went wrong."""
    by_kind: dict[str, dict[str, int]] = defaultdict(dict)
    for (kind, end), count in outcome.ends.items():
        by_kind[kind][end] = count
    for kind, ends in sorted(by_kind.items()):
        told = ", ".join(f"{end}: {count}" for end, count in sorted(ends.items()))
        yield f"{kind:20} {told}"
    for case, problem in outcome.wrong:
        yield f"WRONG case {case.number} ({case.kind}): {problem}"
        yield f"      {case.sent[:_SHOWN_BYTES]!r}"
    yield from (f"FAULT {line}" for line in faults[:_SHOWN_FAULTS])
    yield f"sent {outcome.sent}, wrong {outcome.wrong_count}, faults of the edge {len(faults)}"
