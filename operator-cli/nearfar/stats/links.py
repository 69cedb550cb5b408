"""A link is named only where a probe went it alone, before and after: nearfar roundtrip --json.

What proves a link is the TCP handshake, which is one round trip of the network and nothing else:
the client's own to the edge, and the edge's own to its model server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.errors import BadInput
from nearfar.placement import vantage
from nearfar.placement.vantage import Vantage
from nearfar.stats import stages
from nearfar.stats.blocks import Cells
from nearfar.stats.bootstrap import Difference, difference
from nearfar.stats.multiple import ALPHA
from nearfar.stats.verdict import Finding, rounded

# The part of the way that holds a link → the link's name.
LINKS: Mapping[str, str] = {
    stages.BEFORE_T0: "link from client to edge",
    stages.UNATTRIBUTED: "link from edge to model server",
}
# A link explains a part when its round trip moved by at least this share of what the part did.
LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Handshakes:
    """Milliseconds of TCP handshakes, by the part of the way that holds their link."""

    of_part: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Link:
    """A link that moved, and its share of the part that holds it."""

    name: str
    part: str
    difference: Difference
    share: float

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        low, high = self.difference.interval()
        return {
            "name": self.name,
            "part": self.part,
            "before": rounded(self.difference.before),
            "after": rounded(self.difference.after),
            "interval": [rounded(low), rounded(high)],
            "share": round(self.share, 4),
        }

    def __str__(self) -> str:
        one, two = self.difference.before, self.difference.after
        return f"{self.name}: handshakes took {one:.1f} ms, then {two:.1f} ms ({self.share:.0%})"


def read(path: Path) -> Handshakes:
    """Read what `nearfar roundtrip --json` printed; of several places the first counts.

    Raises:
        BadInput: it cannot be read, or is no such document.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read.", "name what roundtrip --json printed.") from error
    places = vantage.of_document(vantage.last_json(text, str(path)), "here", str(path))
    if not places:
        raise BadInput(f"{path} holds no place.", "measure again with nearfar roundtrip --json.")
    return handshakes(places[0])


def handshakes(place: Vantage) -> Handshakes:
    """The handshakes that one place saw: its own, and those of the edge."""
    client = [trip.connect_ms for trip in place.edge.trips if trip.connect_ms is not None]
    upstreams = place.edge_probe.upstreams
    # Of several model servers nobody knows here which one a request went to.
    (*_, only) = upstreams.values() if len(upstreams) == 1 else ({},)
    edge = [float(value) for value in only.get("connect_ms", ())]
    return Handshakes({stages.BEFORE_T0: client, stages.UNATTRIBUTED: edge})


def named(
    part: Finding | None, before: Handshakes | None, after: Handshakes | None, *, draws: int
) -> Link | None:
    """Name the link that explains a part; None where no probe proves it."""
    if part is None or part.name not in LINKS or before is None or after is None:
        return None
    one, two = before.of_part.get(part.name, ()), after.of_part.get(part.name, ())
    if not one or not two:
        return None
    found = difference(_cells(one), _cells(two), paired=False, draws=draws)
    share = found.value / part.value if part.value else 0.0
    if not found.known or found.p > ALPHA / len(LINKS) or share < LEAST_SHARE:
        return None
    return Link(LINKS[part.name], part.name, found, share)


def _cells(values: Sequence[float]) -> Cells:
    # Each handshake is a block: nothing is in flight beside it.
    sums = np.array(values, dtype=float)[:, None]
    return Cells(sums, np.ones_like(sums))
