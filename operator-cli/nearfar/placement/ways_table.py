"""Round trips as an operator looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nearfar.figures.percentiles import Figure
from nearfar.placement import costs
from nearfar.placement.spread import Spread, milliseconds, shown
from nearfar.placement.subjects import PLACEMENTS, TITLES
from nearfar.placement.vantage import Vantage
from nearfar.placement.ways import Connection, Probed, Way

_PARTS = (
    ("look-up of the name", "dns_ms"),
    ("connect", "connect_ms"),
    ("TLS", "tls_ms"),
    ("question to the answer's head", "head_ms"),
    ("together", "whole_ms"),
)
_NAME_CHARS = 34


def lines(vantages: Sequence[Vantage]) -> list[str]:
    """Everything: the two distances first, then each way, then what placements cost."""
    found = list[str]()
    for seen in vantages:
        found += [f"from {seen.name}", "", *distances(seen), ""]
        found += way(seen.edge, "to the edge")
        if seen.container is not None:
            found += ["", *way(seen.container, "to the container")]
        if seen.gpu is not None:
            found += ["", *way(seen.gpu, "to the GPU's server, past the edge")]
        found += ["", *probed(seen.edge_probe, "from the edge, by its own clock")]
        if seen.container is not None:
            found += ["", *probed(seen.container_probe, "from the container, by its own clock")]
        found += ["", *placements(seen), ""]
    return found[:-1]


def distances(seen: Vantage) -> list[str]:
    """The two distances that the placement turns on, as round trips of the network."""
    here = seen.edge.spread("new", "connect_ms")
    found = [_row("user to edge, one round trip", _or(here, seen.edge.lacks("connect_ms")))]
    for name in seen.edge_probe.upstreams or ("",):
        far = seen.edge_probe.connect_ms(name) if name else None
        said = seen.edge_probe.upstreams.get(name, {})
        why_not = seen.edge_probe.why_not or said.get("connect_why_not", "")
        found.append(_row(f"edge to {name or 'GPU'}, one round trip", _or(far, why_not)))
    return found


def way(gone: Way, title: str) -> list[str]:
    """One way: new connections and reused ones."""
    found = [f"{title}: {gone.url}, {gone.question}"]
    new, reused = _trips(gone, "new"), _trips(gone, "reused")
    found.append(f"  new connection ({new})")
    found += [_row(f"  {name}", _part(gone, "new", part)) for name, part in _PARTS]
    found.append(f"  reused connection ({reused})")
    if gone.spread("reused", "head_ms") is None:
        why_not = gone.why_not or "the server closed each connection after its answer"
        return [*found, f"  not available: {why_not}"]
    return [*found, _row("  question to the answer's head", _part(gone, "reused", "head_ms"))]


def _trips(gone: Way, connection: Connection) -> str:
    statuses = [trip.status for trip in gone.trips if trip.connection == connection]
    counted = [f"{statuses.count(each)} answered {each}" for each in sorted(set(statuses))]
    return ", ".join(counted) or "none"


def _part(gone: Way, connection: Connection, part: str) -> str:
    values = [getattr(trip, part) for trip in gone.trips if trip.connection == connection]
    seen = [value for value in values if value is not None]
    spread = Spread.of(seen)
    return f"{shown(spread)}{beyond(seen)}" if spread else f"not available: {gone.lacks(part)}"


def beyond(values: Iterable[float]) -> str:
    """The percentiles above the median that so many values carry."""
    percentiles = Figure.of(values).percentiles
    told = [
        f"p{share * 100:g} {milliseconds(value)}"
        for share, value in percentiles.items()
        if value is not None and share > 0.5
    ]
    return "".join(f", {each}" for each in told)


def probed(found: Probed, title: str) -> list[str]:
    """What an edge said of its own ways."""
    if found.why_not and not found.upstreams:
        return [f"{title}: not available: {found.why_not}"]
    lines = [title + (f", region {found.region}" if found.region else "")]
    why_not = found.store_why_not or "every read opened a connection"
    lines.append(_row("  near store, one round trip", _or(found.store_ms(), why_not)))
    for name, said in found.upstreams.items():
        connect = _or(found.connect_ms(name), said["connect_why_not"])
        lines += [_row(f"  {name}: connect", connect), f"  {name}: {said['question']}"]
        for title, first in (("first of a probe", True), ("after it", False)):
            spread = found.exchange_ms(name, first=first)
            lines.append(_row(f"    {title}", _or(spread, said["exchange_why_not"])))
    note = "  over the host's own client, which does not say whether it used a connection again"
    return [*lines, note] if found.upstreams else lines


def placements(seen: Vantage) -> list[str]:
    """What the network costs each placement."""
    width = 28
    head = f"{'small questions, sums of medians':<{_NAME_CHARS}}"
    found = [head + "".join(f"{TITLES[each]:<{width}}" for each in PLACEMENTS)]
    for name, cells in costs.rows(seen):
        shown_cells = [
            milliseconds(cell.ms) if cell.ms is not None else "not available"
            for cell in cells.values()
        ]
        found.append(f"{name:<{_NAME_CHARS}}" + "".join(f"{c:<{width}}" for c in shown_cells))
    found += [
        f"  {TITLES[each]}: not available: {why}"
        for each in PLACEMENTS
        for why in dict.fromkeys(cells[each].why_not for _, cells in costs.rows(seen))
        if why
    ]
    return [*(line.rstrip() for line in found), *turning(seen)]


def turning(seen: Vantage) -> list[str]:
    """Where the decision turns, in words."""
    found = costs.turn(seen)
    if found is None:
        return []
    nearer, farther = milliseconds(abs(found.nearer_ms)), milliseconds(abs(found.farther_ms))
    if found.share >= 1:
        return [
            f"A cached answer is {nearer} farther at this edge than on the box: nothing is won."
        ]
    if found.share <= 0:
        return [
            f"At this edge a cached answer is {nearer} nearer, and one of the model no farther."
        ]
    share = f"{found.share:.0%} cached answers"
    return [
        f"A cached answer is {nearer} nearer at the edge, one of the model {farther} farther:",
        f"counted so, the edge wins from {share} on.",
    ]


def _or(spread: Spread | None, why_not: str) -> str:
    return shown(spread) if spread else f"not available: {why_not or 'it was not seen'}"


def _row(name: str, value: str) -> str:
    return f"{name:<{_NAME_CHARS}} {value}"
