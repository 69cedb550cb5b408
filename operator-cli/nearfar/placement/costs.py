"""What each placement costs a cached answer and one of the model, in time on the network.

Only what was observed is added, and only durations that lie one after the other: the trip to the
path, and the path's own exchange with the model server. What the model computes is in none of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from nearfar.placement.subjects import PLACEMENTS, Placement
from nearfar.placement.vantage import Vantage
from nearfar.placement.ways import Connection, Probed, Way

ANSWERS = ("cached", "model's")
CONNECTIONS: tuple[Connection, ...] = ("reused", "new")


@dataclass(frozen=True, slots=True)
class Cost:
    """One cell. `ms` None: a part was not observed, and which."""

    ms: float | None
    why_not: str = ""


def cost(seen: Vantage, placement: Placement, answer: str, connection: Connection) -> Cost:
    """The network's part of one answer, as a sum of medians."""
    ways: dict[Placement, tuple[Way | None, Probed | None, str]] = {
        "one-box": (seen.gpu, None, "pass --gpu, the address of the GPU's server"),
        "container": (seen.container, seen.container_probe, "pass --container, its address"),
        "split": (seen.edge, seen.edge_probe, ""),
    }
    way, probed, hint = ways[placement]
    if way is None:
        return Cost(None, hint)
    near = way.spread(connection, "whole_ms")
    if near is None:
        return Cost(None, way.why_not or f"no trip on a {connection} connection")
    if answer == "cached" or probed is None:
        return Cost(near.median)
    far, why_not = exchange_ms(probed)
    return Cost(None, why_not) if far is None else Cost(near.median + far)


def exchange_ms(probed: Probed) -> tuple[float | None, str]:
    """The median exchange with the one upstream, or with the farthest of several."""
    if probed.why_not:
        return None, probed.why_not
    spreads = {name: probed.exchange_ms(name) for name in probed.upstreams}
    medians = [spread.median for spread in spreads.values() if spread is not None]
    if medians:
        return max(medians), ""
    reasons = [each.get("exchange_why_not", "") for each in probed.upstreams.values()]
    return None, next((reason for reason in reasons if reason), "the edge has no upstream")


@dataclass(frozen=True, slots=True)
class Turn:
    """From which share of cached answers on the edge beats the box, on the network alone.

    `nearer_ms` is what a cached answer gains at the edge, `farther_ms` what one of the model loses.
    """

    share: float
    nearer_ms: float
    farther_ms: float


def turn(seen: Vantage, connection: Connection = "reused") -> Turn | None:
    """Where the decision turns, None where a part was not observed."""
    box = cost(seen, "one-box", "model's", connection).ms
    hit = cost(seen, "split", "cached", connection).ms
    miss = cost(seen, "split", "model's", connection).ms
    if box is None or hit is None or miss is None:
        return None
    nearer, farther = box - hit, miss - box
    if farther <= 0:
        return Turn(0.0, nearer, farther)
    if nearer <= 0:
        return Turn(1.0, nearer, farther)
    return Turn(farther / (nearer + farther), nearer, farther)


def rows(seen: Vantage) -> list[tuple[str, dict[Placement, Cost]]]:
    """The table: an answer and a connection, with each placement's cost."""
    return [
        (
            f"{answer} answer, {connection} connection",
            {each: cost(seen, each, answer, connection) for each in PLACEMENTS},
        )
        for answer in ANSWERS
        for connection in CONNECTIONS
    ]
