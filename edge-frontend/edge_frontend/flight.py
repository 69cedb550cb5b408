"""Concurrent equal misses: one asks the model server, the others follow its answer.

    nf:1:lease:<hash>        token of the leader; expires by itself, renewed while it works
    nf:1:waiting:<hash>      somebody follows; renewed by each follower
    nf:1:live:<token>:<n>    what came from the model server, byte for byte, in segments
    nf:1:answer:<hash>       the finished answer

The leader publishes only while somebody waits. A leader that dies leaves a lease that expires; a
follower then takes over. Nothing here rests on clean-up: a host may drop an instance at any time.
A segment is written as a whole, so that a write whose fate is not known is simply done again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from . import cache
from .errors import StoreDown, UpstreamBroke
from .exchange import Exchange
from .ports import Claim, Delete, Get, Last, Operation, Put, Renew, Result, Sink, Slice

POLL_MS = 25
TICK_MS = 200  # how often a leader renews, and looks whether its client and followers are there
TICK_FOLLOWED_MS = 50
QUIET_MS = 400  # between asks while nobody follows
WAITING_TTL_MS = (
    500  # a follower that left is forgotten within this, so that nothing runs on for it
)
LIVE_TTL_MS = 120_000
SEGMENT_BYTES = 16_384  # the last one is written again with every piece, so not much larger


def answer_key(name: str) -> str:
    return f"nf:1:answer:{name}"


def lease_key(name: str) -> str:
    return f"nf:1:lease:{name}"


def waiting_key(name: str) -> str:
    return f"nf:1:waiting:{name}"


def live_key(token: bytes, segment: int) -> str:
    return f"nf:1:live:{token.decode('latin-1')}:{segment}"


@dataclass(slots=True)
class Lead:
    """This request asks the model server, for itself and for whoever follows.

    Without a token it only keeps its answer: nobody can follow it.
    """

    x: Exchange
    name: str
    token: bytes
    followed: bool = False
    lost: bool = False
    _was_followed: bool = False
    _seen: bytearray = field(default_factory=bytearray)
    _published: int = 0
    _asked_ms: float = -QUIET_MS
    _heard_ms: float = 0.0

    def __post_init__(self) -> None:
        self._heard_ms = self.x.ports.clock.now_ms()

    def saw(self, data: bytes) -> None:
        """Keep what came from the model server for whoever may follow."""
        if not self.lost:
            self._seen += data

    async def tick(self, is_alone: bool = False) -> None:
        """Renew the lease, see whether anybody follows, publish what has come for them.

        While nobody follows the store is asked less often, unless the request's own client is gone.
        What a store that fails for a moment did not take is published by the next tick; the lead
        is lost when the lease is, which may last as long as that.
        """
        now_ms = self.x.ports.clock.now_ms()
        is_quiet = now_ms - self._asked_ms < QUIET_MS and not self.followed and not is_alone
        if self.lost or is_quiet:
            return
        self._asked_ms = now_ms
        lease_ms = self.x.settings.lease_ms
        publishing, seen = self.followed, len(self._seen)
        operations: list[Operation] = [
            Renew(lease_key(self.name), self.token, lease_ms),
            Get(waiting_key(self.name)),
        ]
        if publishing:
            operations += self._publish()
        try:
            renewed, waiting, *_ = await self.x.tend(*operations)
        except StoreDown:
            self._let_go(self.x.ports.clock.now_ms() - self._heard_ms > lease_ms)
            return
        self._heard_ms = self.x.ports.clock.now_ms()
        self.followed = bool(waiting)
        self._was_followed = self._was_followed or self.followed
        # Who comes when nobody was there begins at the beginning, which may have expired.
        self._published = seen if publishing and self.followed else 0
        self._let_go(not renewed)

    async def finish(self, entry: cache.Entry | None) -> None:
        """Publish the rest, keep a complete answer, give the lease back. Never fails a request."""
        operations: list[Operation] = []
        if self._was_followed and not self.lost:
            operations += self._publish()
        if entry is not None:
            value = cache.encode(entry)
            if len(value) <= self.x.settings.cache_max_bytes:
                ttl_ms = self.x.settings.cache_ttl_s * 1000
                operations.append(Put(answer_key(self.name), value, ttl_ms))
        if self.token:
            operations.append(Delete(lease_key(self.name), self.token))
        try:
            if operations:
                await self.x.tend(*operations)
        except StoreDown:
            return

    def _publish(self) -> list[Operation]:
        """Every segment that is not known to be there as it is now."""
        if self._published == len(self._seen):
            return []
        first, last = self._published // SEGMENT_BYTES, (len(self._seen) - 1) // SEGMENT_BYTES
        return [self._segment(number) for number in range(first, last + 1)]

    def _segment(self, number: int) -> Put:
        start = number * SEGMENT_BYTES
        data = bytes(self._seen[start : start + SEGMENT_BYTES])
        return Put(live_key(self.token, number), data, LIVE_TTL_MS)

    def _let_go(self, lost: bool) -> None:
        if lost:
            self.lost, self.followed = True, False
            self._seen.clear()


def alone(x: Exchange, name: str) -> Lead:
    """A request that keeps its answer but holds no lease."""
    return Lead(x, name, b"", lost=True)


@dataclass(slots=True)
class Live:
    """The leader's bytes as a source; its reads are polls of the near store."""

    x: Exchange
    name: str
    token: bytes
    position: int = 0
    _first: bytes = b""
    _closed: bool = False
    _heard_ms: float = 0.0

    def __post_init__(self) -> None:
        self._heard_ms = self.x.ports.clock.now_ms()

    async def read(self) -> bytes:
        """The next bytes of the leader's answer; the stream's own end says when it is over.

        Raises:
            UpstreamBroke: when the leader is gone before its answer was complete.
        """
        if self._first:
            data, self._first = self._first, b""
            return data
        while True:
            lease, data = await self._poll()
            if data:
                return data
            if lease != self.token or self._closed:
                raise UpstreamBroke("The shared answer broke off.")
            await self.x.ports.clock.sleep_ms(POLL_MS)

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        """As the port has it; a piece here is worth a task's turn."""
        piece = b""
        while type(piece) is not Last:
            piece = feed(await self.read())
            await sink.write(piece)

    def close(self) -> None:
        """Follow no more; the leader sees that nobody waits when the mark has expired."""
        self._closed = True

    async def _poll(self) -> tuple[object, bytes]:
        """The lease and what is new; a store that fails for a moment has nothing new."""
        segment, start = divmod(self.position, SEGMENT_BYTES)
        try:
            lease, found, _ = await self.x.near(
                # The lease is read first: once it is gone, everything has been published.
                Get(lease_key(self.name)),
                Slice(live_key(self.token, segment), start),
                Put(waiting_key(self.name), b"1", WAITING_TTL_MS),
            )
        except StoreDown as error:
            if self.x.ports.clock.now_ms() - self._heard_ms > self.x.settings.lease_ms:
                raise UpstreamBroke("The shared answer broke off.") from error
            return self.token, b""
        self._heard_ms = self.x.ports.clock.now_ms()
        data = found if isinstance(found, bytes) else b""
        self.position += len(data)
        return lease, data


async def look_up(
    x: Exchange, name: str, policy: cache.Policy, *more: Operation
) -> tuple[cache.Entry | None, Lead | None, list[Result]]:
    """Ask for an answer and, if there is none, for the lead, all in one batch.

    Answers the entry, the lead if it was won, and the results of the operations in `more`.
    """
    token = x.ports.random_bytes(8).hex().encode()
    operations: list[Operation] = list(more)
    if policy.read:
        operations.append(Get(answer_key(name)))
    if policy.read and policy.keep:
        claim = Claim(lease_key(name), token, x.settings.lease_ms, unless=answer_key(name))
        operations.append(claim)
    results = await x.near(*operations) if operations else []
    extra, rest = results[: len(more)], results[len(more) :]
    value = rest[0] if rest else None
    entry = cache.decode(value) if isinstance(value, bytes) else None
    won = len(rest) > 1 and rest[1] is True
    return entry, Lead(x, name, token) if won else None, list(extra)


async def join(x: Exchange, name: str) -> cache.Entry | Live | Lead | None:
    """Wait for another's answer to begin or finish.

    Answers the finished entry, the live answer once it has begun, the lead if the leader died, or
    None when nothing came within the bound and the request should ask for itself.
    """
    started = x.ports.clock.now_ms()
    token = x.ports.random_bytes(8).hex().encode()
    while x.ports.clock.now_ms() - started < x.settings.follow_ms:
        lease, value, _ = await x.near(
            Get(lease_key(name)),
            Get(answer_key(name)),
            Put(waiting_key(name), b"1", WAITING_TTL_MS),
        )
        if isinstance(value, bytes):
            return cache.decode(value)
        if not isinstance(lease, bytes):
            claim = Claim(lease_key(name), token, x.settings.lease_ms, unless=answer_key(name))
            (won,) = await x.near(claim)
            if won:
                return Lead(x, name, token)
        else:
            (data,) = await x.near(Slice(live_key(lease, 0), 0))
            if isinstance(data, bytes) and data:
                return Live(x, name, lease, len(data), data)
        await x.ports.clock.sleep_ms(POLL_MS)
    return None
