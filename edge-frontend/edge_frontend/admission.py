"""Early admission: what the gate last said of the model server, and who is turned away now.

A hint is worth something for two seconds. A request that the gate would shed is refused here,
before it travels; what must be exact is decided at the gate. Since a hint ages, what has drained
meanwhile is taken off and what this instance has sent since is added. The header is

    x-nearfar-load: in_flight=12;capacity=24;seats=16;queued=0;drain=4.1;speed=14.2

in_flight: places taken, of `capacity`; seats: of these the ones computed at once; drain: answers a
second; speed: tokens a second of one answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import UpstreamBusy
from .exchange import Exchange
from .limits import PRIORITIES
from .ports import Get, Put, Result

FRESH_MS = 2_000
SHARE_MS = 500  # how often an instance tells the others; one that is new tells at once
MOST_RETRY_S = 60
# Kept back from the host's deadline: for the first content, and for the event that says the end.
MARGIN_MS = 1_000
_SPEED_TTL_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Load:
    """How full a model server was at `read_ms` of the edge's clock."""

    in_flight: float
    capacity: float
    seats: float
    drain: float | None
    speed: float | None
    read_ms: float

    def room(self, priority: int) -> float:
        """How many places may be taken when a request of this priority comes: the gate's rule."""
        if priority == PRIORITIES["batch"]:
            return self.seats
        waiting = self.capacity - self.seats
        return self.seats + (
            waiting if priority == PRIORITIES["interactive"] else (waiting + 1) // 2
        )


def due(x: Exchange, upstream: str) -> tuple[Get, ...]:
    """What to ask along with a look-up: what other instances of this edge were told."""
    if not x.settings.gate_secret or _fresh(x, upstream) is not None:
        return ()
    return Get(load_key(upstream)), Get(speed_key(upstream))


def learn(x: Exchange, upstream: str, load: Result, speed: Result) -> None:
    """Take what was asked; what another instance put there is as old as it says."""
    if isinstance(load, bytes):
        put_ms, _, header = load.decode("latin-1").partition(" ")
        age_ms = x.ports.clock.wall_s() * 1000 - _number(put_ms)
        if age_ms < FRESH_MS:
            _remember(x, upstream, header, max(0.0, age_ms))
    if isinstance(speed, bytes):
        x.instance.speeds.setdefault(upstream, _number(speed.decode("latin-1")))


def heard(x: Exchange, upstream: str, header: str) -> None:
    """Remember what the gate said, and let other instances know; what is no load is no hint."""
    load = _remember(x, upstream, header, 0.0)
    if (
        load is not None
        and load.read_ms - x.instance.shared_ms.get(upstream, -SHARE_MS) >= SHARE_MS
    ):
        x.instance.shared_ms[upstream] = load.read_ms
        told = f"{x.ports.clock.wall_s() * 1000:.0f} {header}".encode("latin-1")
        x.after.append(Put(load_key(upstream), told, FRESH_MS))
        if load.speed:
            x.after.append(Put(speed_key(upstream), b"%.1f" % load.speed, _SPEED_TTL_MS))


def bound(x: Exchange, upstream: str, asked: int) -> int:
    """As many tokens as the host's deadline leaves time for, `asked` where nothing is known."""
    speed = x.instance.speeds.get(upstream)
    if not x.settings.deadline_ms or not speed:
        return asked
    left_s = (left_ms(x) - MARGIN_MS) / 1000
    return max(1, min(asked, int(left_s * speed)))


def left_ms(x: Exchange) -> float:
    """What is left until the host ends the request."""
    return x.settings.deadline_ms - (x.ports.clock.now_ms() - x.account.started_ms)


def load_key(upstream: str) -> str:
    return f"nf:1:load:{upstream}"


def speed_key(upstream: str) -> str:
    return f"nf:1:speed:{upstream}"


def check(x: Exchange, upstream: str) -> None:
    """Turn away a request that would be shed; one that is not is counted as sent.

    Raises:
        UpstreamBusy: with the seconds until its place is likely to be free.
    """
    load = _fresh(x, upstream)
    if load is None or x.claims is None:
        return
    sent = x.instance.sent.get(upstream, 0)
    drained = (load.drain or 0.0) * (x.ports.clock.now_ms() - load.read_ms) / 1000
    above = max(0.0, load.in_flight - drained) + sent - load.room(x.claims.priority)
    if above >= 0:
        raise UpstreamBusy(
            "The model server is full; try again later.",
            headers=(("retry-after", str(retry_after_s(above + 1, load.drain))),),
        )
    x.instance.sent[upstream] = sent + 1


def retry_after_s(above: float, drain: float | None) -> int:
    """Whole seconds until so many have left, at least 1; one second where the rate is not known."""
    return max(1, min(MOST_RETRY_S, math.ceil(above / drain))) if drain else 1


def parse(header: str, now_ms: float) -> Load | None:
    """Read the header; None unless it has finite counts."""
    pairs = (part.partition("=") for part in header.split(";"))
    try:
        values = {name.strip(): float(value) for name, _, value in pairs}
        in_flight, capacity = values["in_flight"], values["capacity"]
    except (KeyError, ValueError):
        return None
    if capacity <= 0 or not all(map(math.isfinite, values.values())):
        return None
    seats = values.get("seats", capacity)
    return Load(in_flight, capacity, seats, values.get("drain"), values.get("speed"), now_ms)


def _remember(x: Exchange, upstream: str, header: str, age_ms: float) -> Load | None:
    load = parse(header, x.ports.clock.now_ms() - age_ms)
    if load is not None:
        x.instance.loads[upstream], x.instance.sent[upstream] = load, 0
        if load.speed:
            x.instance.speeds[upstream] = load.speed
    return load


def _fresh(x: Exchange, upstream: str) -> Load | None:
    load: Load | None = x.instance.loads.get(upstream)
    if load is None or x.ports.clock.now_ms() - load.read_ms > FRESH_MS:
        return None
    return load


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
