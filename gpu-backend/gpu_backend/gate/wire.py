"""One connection to Redis: commands leave as they are asked, replies come back in that order.

Of the protocol (RESP2) it reads what the gate's commands are answered with: texts, numbers and
errors. redis-py's own reader costs a task's turn for every line of a reply, and its client half of
a round trip's time beside; under load each turn waits for all others.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

_LARGEST_BYTES = 8 << 20

Command = tuple[str | int, ...]
Reply = bytes | int | None
Take = Callable[["Reply | Exception"], None]


class Refused(Exception):
    """Redis answered with an error; `kind` is its first word, such as NOSCRIPT."""

    def __init__(self, text: bytes) -> None:
        self.kind = text.decode(errors="replace").partition(" ")[0]
        super().__init__(self.kind)


def packed(command: Command) -> bytes:
    """A command as Redis reads it: an array of bulk strings."""
    words = [str(word).encode() for word in command]
    bulk = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%b" % (len(words), b"".join(bulk))


class Wire(asyncio.Protocol):
    """The connection; `lost` is called once, with what went wrong, when it is no more."""

    def __init__(self, lost: Callable[[Wire, Exception], None]) -> None:
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._asked: deque[tuple[float, Take]] = deque()
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()

    @property
    def oldest_s(self) -> float | None:
        """When the command that waits longest was sent, in the loop's time."""
        return self._asked[0][0] if self._asked else None

    def ask(self, command: Command, take: Take) -> None:
        """Send a command; `take` gets its reply, or why there will be none."""
        self._asked.append((self._loop.time(), take))
        if self._transport is not None:
            self._transport.write(packed(command))

    async def ask_all(self, commands: Sequence[Command]) -> None:
        """Send commands and wait until all are answered.

        Raises:
            Refused: when one of them is; or whatever ended the connection.
        """
        futures = []
        for command in commands:
            future: asyncio.Future[Reply] = self._loop.create_future()
            self.ask(command, functools.partial(_settle, future))
            futures.append(future)
        for reply in await asyncio.gather(*futures, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply

    def end(self, why: Exception) -> None:
        """End the connection now; who still waits is told why."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._tell(why)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport by name.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        why = error or ConnectionError()
        self._lost(self, why)
        self._tell(why)

    def data_received(self, data: bytes) -> None:
        self._data += data
        at = 0
        try:
            while self._asked and (found := _reply(self._data, at)) is not None:
                reply, at = found
                self._asked.popleft()[1](reply)
            if at < len(self._data) and not self._asked:
                raise ValueError("a reply that nobody asked for")
        except ValueError as error:
            self._lost(self, error)
            self.end(error)
        del self._data[:at]

    def _tell(self, why: Exception) -> None:
        asked, self._asked = self._asked, deque()
        for _, take in asked:
            take(why)


def _reply(data: bytearray, at: int) -> tuple[Reply | Refused, int] | None:
    """The reply that begins there and where it ends; None while it has not all come.

    Raises:
        ValueError: when it is none that is known here.
    """
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, line, after = data[at], bytes(data[at + 1 : end]), end + 2
    if kind == ord(":"):
        return int(line), after
    if kind == ord("+"):
        return line, after
    if kind == ord("-"):
        return Refused(line), after
    if kind != ord("$"):
        raise ValueError("a reply of a kind that no command here has")
    size = int(line)
    if size == -1:
        return None, after
    if not 0 <= size <= _LARGEST_BYTES:
        raise ValueError("a reply of a size that none has")
    whole = after + size + 2
    return (bytes(data[after : whole - 2]), whole) if len(data) >= whole else None


def _settle(future: asyncio.Future[Reply], reply: Reply | Exception) -> None:
    if future.done():
        return
    if isinstance(reply, Exception):
        future.set_exception(reply)
    else:
        future.set_result(reply)
