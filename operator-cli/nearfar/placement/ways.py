"""Ways between places, gone again and again: from here to a server, and an edge's own.

Durations in milliseconds, each of one clock: that of the machine that went the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from nearfar.errors import Missing, NearfarError
from nearfar.placement.address import Address
from nearfar.placement.dial import Line, Reply
from nearfar.placement.spread import Spread

# The edge's own bound for one probe (docs/http.md).
MOST_A_PROBE = 20
Connection = Literal["new", "reused"]
Pause = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Trip:
    """One exchange. The parts of connecting are None on a connection that was used before.

    `dns_ms` is None for an address, `tls_ms` for plain HTTP. `head_ms` runs from sending the
    question to the head of its answer, so what the server needs for it is within.
    """

    connection: Connection
    dns_ms: float | None
    connect_ms: float | None
    tls_ms: float | None
    head_ms: float
    status: int

    @property
    def whole_ms(self) -> float:
        """From the look-up to the answer's head."""
        parts = (self.dns_ms, self.connect_ms, self.tls_ms, self.head_ms)
        return sum(part for part in parts if part is not None)


@dataclass(slots=True)
class Way:
    """All trips from here to one server. `question` is what was asked there."""

    url: str
    question: str
    trips: list[Trip] = field(default_factory=list)
    why_not: str = ""

    def spread(self, connection: Connection, part: str) -> Spread | None:
        """The spread of one part over the trips of one kind."""
        values = [getattr(trip, part) for trip in self.trips if trip.connection == connection]
        return Spread.of(value for value in values if value is not None)

    def lacks(self, part: str) -> str:
        """Why nothing is known of a part."""
        if self.why_not and not self.trips:
            return self.why_not
        address = Address.of(self.url)
        if part == "dns_ms" and address.is_literal:
            return "the server is named by its address"
        if part == "tls_ms" and not address.secure:
            return "the server is asked without TLS"
        return self.why_not or "it was not seen"


@dataclass(slots=True)
class Probed:
    """What an edge said of its own ways. `store_ms` and the others are of its own clock."""

    region: str = ""
    store: list[Mapping[str, Any]] = field(default_factory=list)
    upstreams: dict[str, dict[str, Any]] = field(default_factory=dict)
    why_not: str = ""
    store_why_not: str = ""

    def store_ms(self) -> Spread | None:
        """Reads of the near store that took one round trip."""
        return Spread.of(float(each["ms"]) for each in self.store if each["round_trips"] == 1)

    def connect_ms(self, name: str) -> Spread | None:
        """TCP connections to an upstream: one round trip of the network each."""
        return Spread.of(map(float, self.upstreams[name]["connect_ms"]))

    def exchange_ms(self, name: str, *, first: bool | None = None) -> Spread | None:
        """Exchanges with an upstream over the host's own client, to the answer's head.

        `first`: only those that began a probe, or only those after them.
        """
        return Spread.of(
            float(each["head_ms"])
            for each in self.upstreams[name]["exchanges"]
            if first is None or each["first"] == first
        )


def go(way: Way, repeats: int, pause: Pause, headers: Mapping[str, str] | None = None) -> None:
    """Go a way `repeats` times on new connections, and once more on each of these.

    Trips are added as they are made, so that an interrupt keeps them.

    Raises:
        Missing: the server cannot be reached at all; later failures are written down in the way.
    """
    address = Address.of(way.url)
    for number in range(repeats):
        if number:
            pause()
        try:
            way.trips.extend(_there(address, way.question, headers or {}))
        except Missing as problem:
            if not way.trips:
                raise
            way.why_not = f"after {number} of {repeats} times: {problem.message}"
            return


def _there(address: Address, question: str, headers: Mapping[str, str]) -> Iterator[Trip]:
    with Line(address) as line:
        opened, first = line.opening, line.ask(question, headers)
        yield Trip(
            "new", opened.dns_ms, opened.connect_ms, opened.tls_ms, first.head_ms, first.status
        )
        if line.still_open:
            again = line.ask(question, headers)
            yield Trip("reused", None, None, None, again.head_ms, again.status)


def probe(url: str, api_key: str, repeats: int, upstream: str | None) -> Probed:
    """Let the edge go its own ways; a refusal is written down and is no failure.

    Raises:
        Missing: the edge cannot be reached.
    """
    found, left = Probed(), repeats
    if not api_key:
        found.why_not = "no API key was given; one with the permission trace is needed"
        return found
    while left > 0 and not found.why_not:
        _probe_once(found, url, api_key, min(left, MOST_A_PROBE), upstream)
        left -= MOST_A_PROBE
    return found


def _probe_once(found: Probed, url: str, api_key: str, count: int, upstream: str | None) -> None:
    path = f"/probe?count={count}" + (f"&upstream={quote(upstream, safe='')}" if upstream else "")
    with Line(Address.of(url)) as line:
        reply = line.ask(path, {"authorization": f"Bearer {api_key}"})
    try:
        document = _document(reply)
    except NearfarError as problem:
        found.why_not = problem.message
        return
    found.region = document["region"]
    found.store += document["store"]["trips"]
    found.store_why_not = document["store"]["not_available"] or ""
    for name, said in document["upstreams"].items():
        kept = found.upstreams.setdefault(
            name, {"question": said["question"], "connect_ms": [], "exchanges": []}
        )
        kept["connect_ms"] += said["connecting"]["connect_ms"]
        # A host that keeps connections can use one again only after the first of a probe.
        kept["exchanges"] += [
            {**each, "first": number == 0} for number, each in enumerate(said["exchanges"]["done"])
        ]
        kept["connect_why_not"] = said["connecting"]["not_available"] or ""
        kept["exchange_why_not"] = said["exchanges"]["not_available"] or ""


def _document(reply: Reply) -> Mapping[str, Any]:
    said = reply.json()
    if reply.status == 200 and isinstance(said, dict) and said.get("object") == "nearfar.probe":
        return said
    error = said.get("error") if isinstance(said, dict) else None
    if isinstance(error, dict) and error.get("message"):
        raise NearfarError(f"the edge refused a probe: {error['message']}")
    raise NearfarError(f"the server answered {reply.status} to a probe, not as an edge does")


def resting(interval_s: float) -> Pause:
    """A pause of so many seconds."""
    return lambda: time.sleep(interval_s)
