"""The mean way of a request as one bar: parts that add up to the client's whole wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nearfar.runs import Sample
from nearfar.stats import stages


@dataclass(frozen=True, slots=True)
class Pile:
    """Parts that are drawn as one piece of a bar, and how."""

    name: str
    colour: str
    hatch: str
    parts: tuple[str, ...]


_EDGE = "edge, before the model call"
# Hatches tell the pieces apart where colours do not.
PILES = (
    Pile(stages.BEFORE_T0, "grey", "", (stages.BEFORE_T0,)),
    Pile(_EDGE, "blue", "", ()),
    Pile(stages.QUEUE, "purple", "..", (stages.QUEUE,)),
    Pile(stages.FIRST_TOKEN, "vermillion", "", (stages.FIRST_TOKEN,)),
    Pile(stages.UNATTRIBUTED, "orange", "//", (stages.UNATTRIBUTED,)),
    Pile("edge, forwarding", "sky", "", ("forward_first", "collect", "forward")),
    Pile(stages.GENERATION, "green", "", (stages.GENERATION,)),
    Pile("stream, not told by the engine", "sky", "\\\\", (stages.STREAM_REST, "stream")),
    Pile(stages.AFTER_T6, "grey", "xx", (stages.AFTER_T6,)),
)
_OWN = {part for pile in PILES for part in pile.parts}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: requests of one kind of one run. Parts are means in milliseconds."""

    name: str
    requests: int
    parts_ms: Mapping[str, float]

    @property
    def whole_ms(self) -> float:
        """The mean end to end time."""
        return sum(self.parts_ms.values())

    @property
    def piles_ms(self) -> Mapping[str, float]:
        """The parts as they are drawn."""
        found = {p.name: sum(self.parts_ms.get(n, 0.0) for n in p.parts) for p in PILES}
        found[_EDGE] = sum(v for name, v in self.parts_ms.items() if name not in _OWN)
        return found


def bars(name: str, good: Sequence[Sample]) -> Iterator[Bar]:
    """One bar for each state of the answer cache; none where no record came."""
    split = stages.splits(good)
    kinds = dict.fromkeys(str(s.x_cache or s.recorded("cache") or "unknown") for s in good)
    for kind in kinds:
        own = [s for s in good if str(s.x_cache or s.recorded("cache") or "unknown") == kind]
        known = [parts for s in own if (parts := stages.parts(s, split)) is not None]
        if known:
            names = stages.ordered({part for each in known for part in each})
            means = {n: sum(each.get(n, 0.0) for each in known) / len(known) for n in names}
            yield Bar(f"{name}: {kind}, n = {len(known)}", len(known), means)
