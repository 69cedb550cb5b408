"""Who may come in while the engine is busy: seats, a small waiting room, priorities, fairness.

Seats are what the engine computes at once, the waiting room what may stand in its queue; a
request takes one place for each choice it asks for. The rules, in order:

1. While there are free seats, everybody is let in.
2. Then only the waiting room is left. Batch requests never enter it, normal ones may fill half
   of it (rounded up), interactive ones all of it.
3. Its last place is for a tenant that has nothing in flight.
4. A tenant that would hold more than an equal share of all places (places over tenants in
   flight) may not enter while another has something in flight.

A request for which there is never room by these rules gets in when nothing else is in flight,
unless the engine would refuse it even then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from gpu_backend.gate.answers import Overloaded, TooManyChoices
from gpu_backend.grant import BATCH, INTERACTIVE

WINDOW_S = 10.0
# A client that is told to wait longer than this would do better to ask again.
LONGEST_RETRY_S = 60.0
# Weight of the newest request in the measured decode speed.
_NEWEST = 0.1


@dataclass(slots=True)
class Seat:
    """The places of one request, from the moment it was let in."""

    tenant: str
    places: int
    taken_s: float


class Load:
    """All places of one engine. `now` is a monotonic clock in seconds."""

    def __init__(self, max_running: int, max_waiting: int, now: Callable[[], float]) -> None:
        self.max_running = max_running
        self.capacity = max_running + max_waiting
        self.in_flight = 0
        self.tokens_per_s: float | None = None  # of one request, over the latest ones
        self._now = now
        self._by_tenant: Counter[str] = Counter()
        self._seats: dict[int, Seat] = {}  # in the order in which they were taken
        self._ended_s: deque[float] = deque()
        # Since when something has been in flight without a break, and how many ended since.
        self._busy_since_s = now()
        self._ended_busy = 0

    def take(self, tenant: str, priority: int, choices: int) -> Seat:
        """Let a request in.

        Raises:
            Overloaded: there is no place for it now; it says when there should be one.
            TooManyChoices: there are never so many places.
        """
        if choices > self.capacity:
            raise TooManyChoices(
                f"The request asks for {choices} choices; the model server takes at most "
                f"{self.capacity} at once."
            )
        room = self._room(tenant, priority, choices)
        if self.in_flight + choices > room and not (self.in_flight == 0 and choices > room):
            raise Overloaded(
                "The model server is full; try again later.",
                retry_after_s=self._retry_after_s(self.in_flight + choices - room),
            )
        seat = Seat(tenant, choices, self._now())
        if self.in_flight == 0:
            self._busy_since_s, self._ended_busy = seat.taken_s, 0
        self.in_flight += choices
        self._by_tenant[tenant] += choices
        self._seats[id(seat)] = seat
        return seat

    def give_back(self, seat: Seat, *, served: bool, tokens: int = 0) -> None:
        """Free a seat's places; safe to call twice.

        Only a `served` request says something about how fast the engine is; `tokens` are those
        of a request that was served to its end.
        """
        if self._seats.pop(id(seat), None) is None:
            return
        self.in_flight -= seat.places
        self._by_tenant[seat.tenant] -= seat.places
        if not self._by_tenant[seat.tenant]:
            del self._by_tenant[seat.tenant]
        if served:
            self._learn(seat, tokens)

    def drain_per_s(self) -> float | None:
        """Requests that ended, a second, over the last 10 s; None where none did."""
        self._forget()
        return len(self._ended_s) / WINDOW_S if self._ended_s else None

    def retry_after_s(self) -> float:
        """When one more place should be free."""
        return self._retry_after_s(1)

    def header(self) -> bytes:
        """The value of x-nearfar-load."""
        queued = max(0, self.in_flight - self.max_running)
        drain = self.drain_per_s()
        told = f"in_flight={self.in_flight};capacity={self.capacity};seats={self.max_running}"
        told += f";queued={queued}"
        told += "" if drain is None else f";drain={drain:.1f}"
        return (
            told + ("" if self.tokens_per_s is None else f";speed={self.tokens_per_s:.1f}")
        ).encode()

    def _room(self, tenant: str, priority: int, choices: int) -> int:
        """How many places may be taken after this request has come in."""
        waiting, tenants = self.capacity - self.max_running, len(self._by_tenant)
        held = self._by_tenant.get(tenant, 0)
        over_its_share = tenants > 1 and (held + choices) * tenants > self.capacity
        if priority == BATCH or (held and over_its_share):
            return self.max_running
        allowed = waiting if priority == INTERACTIVE else (waiting + 1) // 2
        if held:
            allowed = min(allowed, max(0, waiting - 1))
        return self.max_running + allowed

    def _retry_after_s(self, places: int) -> float:
        """From the drain rate; without one, as long again as the oldest request has taken."""
        drain = self._busy_drain_per_s()
        if drain is not None:
            return min(places / drain, LONGEST_RETRY_S)
        oldest = next(iter(self._seats.values()), None)
        running_s = 0.0 if oldest is None else self._now() - oldest.taken_s
        return min(max(1.0, running_s), LONGEST_RETRY_S)

    def _busy_drain_per_s(self) -> float | None:
        """The drain rate over that part of the last 10 s in which something was in flight."""
        busy_s = self._now() - self._busy_since_s
        if busy_s >= WINDOW_S:
            return self.drain_per_s()
        return self._ended_busy / busy_s if self._ended_busy and busy_s > 0 else None

    def _learn(self, seat: Seat, tokens: int) -> None:
        now = self._now()
        self._ended_s.append(now)
        self._ended_busy += 1
        self._forget()
        taken_s = now - seat.taken_s
        if tokens > 0 and taken_s > 0:
            speed = tokens / taken_s
            before = speed if self.tokens_per_s is None else self.tokens_per_s
            self.tokens_per_s = before + _NEWEST * (speed - before)

    def _forget(self) -> None:
        oldest = self._now() - WINDOW_S
        while self._ended_s and self._ended_s[0] <= oldest:
            self._ended_s.popleft()
