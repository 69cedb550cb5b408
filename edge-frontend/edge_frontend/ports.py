"""The narrow ports through which the flow meets the world; one adapter per host stands behind each.

An adapter translates types, performs one effect and maps the host's errors to those of `errors`; it
holds no decision. Times are in milliseconds of the host's monotonic clock unless a name says
otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Alarm(Protocol):
    """A call that is to come."""

    def let_go(self) -> None:
        """Let it not come."""
        ...


class Clock(Protocol):
    """Time on one machine."""

    def now_ms(self) -> float: ...

    def wall_s(self) -> float: ...

    async def sleep_ms(self, duration_ms: float) -> None: ...

    def after_ms(self, duration_ms: float, then: Callable[[], None]) -> Alarm: ...


# What the near store can be asked; several together are one batch, and one round trip where the
# store can pipeline. Values and keys are bytes and text; every value expires by itself.


@dataclass(frozen=True, slots=True)
class Get:
    """The value, or None."""

    key: str


@dataclass(frozen=True, slots=True)
class Slice:
    """The bytes of a value from `start` on; empty where there is none."""

    key: str
    start: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value; answers True."""

    key: str
    value: bytes
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Write a value where there is none, and none at `unless`; answers whether it was written."""

    key: str
    value: bytes
    ttl_ms: int
    unless: str


@dataclass(frozen=True, slots=True)
class Renew:
    """Let a value live on if it is still this one; answers whether it was."""

    key: str
    value: bytes
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a value, or only this one where `value` is given; answers whether it was removed."""

    key: str
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class Add:
    """Add to a whole number, 0 where there is none; answers True. Fails for what is no number."""

    key: str
    amount: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Spend:
    """Count an event, if fewer than `most` lie within the last `window_ms`.

    Answers the milliseconds until it could be counted; or, if it was, how many more could be, as a
    number of at most 0. No two events have the same name.
    """

    key: str
    event: str
    most: int
    window_ms: int


@dataclass(frozen=True, slots=True)
class Unspend:
    """Take a counted event back; answers whether it was there."""

    key: str
    event: str


Operation = Get | Slice | Put | Claim | Renew | Delete | Add | Spend | Unspend
Result = bytes | bool | int | None


class Store(Protocol):
    """The store near the edge: a key-value store of the host, or a Redis beside it."""

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        """Perform the operations in order; answers their results and the round trips it took.

        Raises:
            StoreDown: when it did not answer in time or not in order.
        """
        ...


class Last(bytes):
    """What a feed answers when nothing more is to be read."""


class Source(Protocol):
    """The body of an answer, read piece by piece."""

    async def read(self) -> bytes:
        """The next bytes, empty at a clean end and ever after.

        Raises:
            UpstreamError: when the body broke off or nothing came for too long.
        """
        ...

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        """Hand every piece to `feed` and write what it answers, until that is a `Last`.

        A client that is gone gets nothing more, and reading goes on. The body's end is an empty
        piece. A host adapter does this without a task's turn for every piece.

        Raises:
            UpstreamError: as `read` does; and whatever `feed` raises.
        """
        ...

    def close(self) -> None:
        """End the upstream's work now; a read that is waiting ends too."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model server."""

    scheme: str
    authority: str
    path: str
    headers: tuple[tuple[str, bytes], ...]
    body: bytes
    connect_timeout_ms: int
    first_byte_timeout_ms: int
    between_bytes_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of a model server's answer, and its body to be read."""

    status: int
    headers: tuple[tuple[str, bytes], ...]
    body: Source


class Upstream(Protocol):
    """The way to the model servers."""

    async def send(self, call: Call) -> Answer:
        """Send the request and wait for the head of its answer.

        Raises:
            UpstreamUnreachable: when there is nobody.
            UpstreamTimeout: when the head did not come in time.
        """
        ...


class Sockets(Protocol):
    """Plain connections, where a host gives them; only how long they take is of interest."""

    async def look_up(self, host: str, timeout_ms: int) -> Any:
        """An address of the host, in the adapter's own form.

        Raises:
            UpstreamError: when there is none, or it did not come in time.
        """
        ...

    async def connect(self, address: Any, port: int, timeout_ms: int) -> None:
        """Open a TCP connection and drop it at once.

        Raises:
            UpstreamError: when nobody takes it, or not in time.
        """
        ...


class Sink(Protocol):
    """The client's end of the answer."""

    async def write(self, data: bytes) -> bool:
        """Send bytes to the client; False when the client is gone."""
        ...

    async def is_there(self) -> bool:
        """Ask without sending a byte whether the client still listens."""
        ...

    def abort(self) -> None:
        """End the transfer so that the client sees it did not complete."""
        ...


class Inbound(Protocol):
    """A request as the host hands it over. Header names are lower case."""

    method: str
    path: str
    headers: Sequence[tuple[str, bytes]]

    async def body(self, limit_bytes: int) -> bytes:
        """The whole body.

        Raises:
            BodyTooLarge: when it is longer than the limit.
        """
        ...


Producer = Callable[[Sink], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the host sends: a head, and a whole body or a producer that writes one."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | Producer


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports of one host."""

    clock: Clock
    store: Store | None
    upstream: Upstream
    random_bytes: Callable[[int], bytes]
    log: Callable[[str], None]
    spawn: Callable[[Awaitable[None]], None]
    sockets: Sockets | None = None
