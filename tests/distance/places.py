"""Three placements of one path, and how long each way's round trip is for a user so far away.

The user is `away_ms` from the GPU, as a round trip. Whatever stands in between lies on the way, so
that the two ways of a placement together are as long as the way itself: nothing is won or lost by
a detour, and what differs is where the path stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nearfar.placement.subjects import PLACEMENTS, TITLES, Placement

Host = Literal["component", "process"]
AWAY_MS = (10.0, 80.0, 200.0)
# An edge stands in the user's city; a container in the GPU's region.
EDGE_MS = 5.0
REGION_MS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """One placement for one user. `host` is what the path runs in."""

    placement: Placement
    away_ms: float
    user_ms: float
    gpu_ms: float
    host: Host

    @property
    def title(self) -> str:
        """As an operator calls it."""
        return TITLES[self.placement]


def place(placement: Placement, away_ms: float) -> Place:
    """Where a placement's path stands for a user so far from the GPU."""
    near = {"one-box": away_ms, "container": away_ms - REGION_MS, "split": EDGE_MS}[placement]
    user_ms = min(max(near, 0.0), away_ms)
    host: Host = "component" if placement == "split" else "process"
    return Place(placement, away_ms, user_ms, away_ms - user_ms, host)


def places(away_ms: tuple[float, ...] = AWAY_MS) -> list[Place]:
    """Every placement for every user, so that placements of one user come one after another."""
    return [place(placement, away) for away in away_ms for placement in PLACEMENTS]
