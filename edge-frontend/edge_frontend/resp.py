"""The Redis protocol as values: commands to bytes, bytes to replies, RESP2 and RESP3.

Source: https://redis.io/docs/latest/develop/reference/protocol-spec/. Streamed aggregates,
attributes and pushes are refused: no server sends them to a client that did not ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

# A reply of the near store is one cached answer, which edge key-value stores limit to a
# megabyte; four leave room for a pipeline's aggregate.
MAX_REPLY_BYTES: Final = 4 << 20

_MAX_LINE_BYTES: Final = 1 << 16  # lines hold numbers, states and error messages
_MAX_DEPTH: Final = 16
_SMALLEST_REPLY_BYTES: Final = 3  # b"_\r\n", or b"+\r\n"
_INT64_DIGITS: Final = 19
_MAX_BIG_DIGITS: Final = 4000  # Python itself refuses to read more than 4300

_SIMPLE, _ERROR, _INTEGER, _BULK, _ARRAY = b"+-:$*"
_NULL, _BOOLEAN, _DOUBLE, _BIG, _BULK_ERROR, _VERBATIM, _MAP, _SET = b"_#,(!=%~"
_BULKS: Final = frozenset({_BULK, _BULK_ERROR, _VERBATIM})
_AGGREGATES: Final = frozenset({_ARRAY, _MAP, _SET})
_NOT_FINITE: Final = frozenset({b"inf", b"-inf", b"nan", b"-nan"})


class ProtocolError(ValueError):
    """The peer does not speak RESP, or sent more than is allowed: close the connection.

    The message holds nothing of what was sent but, at most, the byte that begins no reply.
    """


@dataclass(frozen=True, slots=True)
class RespError:
    """What the server answered instead of a value, such as `OOM command not allowed …`."""

    message: str

    @property
    def code(self) -> str:
        """Return the first word, by which the kinds of errors are told apart."""
        return self.message.partition(" ")[0]


class NeedMore(Enum):
    """The type of NEED_MORE, which no reply can be equal to."""

    NEED_MORE = "need more"


NEED_MORE: Final = NeedMore.NEED_MORE

Value: TypeAlias = (
    "bytes | int | float | bool | RespError | list[Value] | dict[Value, Value] | None"
)


def command(*parts: bytes) -> bytes:
    """Return one command as an array of bulk strings; joined commands make a pipeline."""
    return b"*%d\r\n%b" % (
        len(parts),
        b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]),
    )


class Reader:
    """Turns the bytes of a connection into replies, however they were split on the way.

    Simple, bulk and verbatim strings come as bytes, arrays and sets as lists, and errors as
    RespError values, inside aggregates too. One reply, with its framing, may hold
    `max_reply_bytes`. After a ProtocolError the reader is of no use.
    """

    __slots__ = ("_at", "_buffer", "_limit", "_more", "_open", "_used", "_wanted")

    def __init__(self, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._limit = max_reply_bytes
        self._buffer = b""
        self._at = 0  # where the next element begins in the buffer
        self._more: list[bytes] = []  # reads that are not part of the buffer yet
        self._wanted = 0  # bytes that must come before another look is worth while
        self._used = 0  # `_used + _at` bytes of the current reply have been read
        self._open: list[_Open] = []  # the aggregates we are in, the innermost last

    @property
    def idle(self) -> bool:
        """Tell whether nothing is left unread: only then may the connection be used again."""
        return not (self._more or self._open) and self._at == len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take the bytes of one read."""
        if data:
            self._more.append(data)
            self._wanted -= len(data)

    def get(self) -> Value | NeedMore:
        """Return the next reply, or NEED_MORE until more bytes complete it.

        Raises ProtocolError for anything that is not RESP or is larger than allowed.
        """
        if self._more:
            if self._wanted > 0:
                return NEED_MORE
            self._join()
        while True:
            value = self._element()
            if value is NEED_MORE:
                return NEED_MORE
            if isinstance(value, _Open):
                self._open.append(value)
                if len(self._open) > _MAX_DEPTH:
                    raise ProtocolError(f"the store's reply nests deeper than {_MAX_DEPTH}")
                continue
            while self._open:
                innermost = self._open[-1]
                innermost.items.append(value)
                if len(innermost.items) < innermost.size:
                    break
                value = self._open.pop().value()
            else:
                self._used = -self._at
                return value

    def _join(self) -> None:
        """Make one buffer of what is unread; without a copy where one read is all there is."""
        unread = self._buffer[self._at :]
        self._used += self._at
        self._at = 0
        if unread:
            self._more.insert(0, unread)
        self._buffer = b"".join(self._more)
        self._more.clear()

    def _element(self) -> Value | _Open | NeedMore:
        """Take one element off the buffer: a whole value, or the head of an aggregate."""
        buffer, at = self._buffer, self._at
        if at == len(buffer):
            return self._wait(1)
        kind = buffer[at]
        if kind not in _KINDS:
            raise ProtocolError(f"the store sent {buffer[at : at + 1]!r}, which begins no reply")
        end = buffer.find(b"\r\n", at, at + _MAX_LINE_BYTES)
        if end < 0:
            if len(buffer) - at >= _MAX_LINE_BYTES:
                raise ProtocolError(f"the store sent a line of over {_MAX_LINE_BYTES} bytes")
            return self._wait(1)
        line = buffer[at + 1 : end]
        if kind in _BULKS:
            return self._bulk(kind, line, end + 2)
        self._allow(end + 2)
        self._at = end + 2
        if kind in _AGGREGATES:
            return self._aggregate(kind, line)
        return _LINES[kind](line)

    def _bulk(self, kind: int, line: bytes, start: int) -> Value | NeedMore:
        size = _size(line)
        if size is None:
            self._at = start
            return None
        end = start + size
        self._allow(end + 2)
        buffer = self._buffer
        if len(buffer) < end + 2:
            return self._wait(end + 2 - len(buffer))
        if buffer[end : end + 2] != b"\r\n":
            raise ProtocolError("the store sent a string that is longer than announced")
        self._at = end + 2
        text = buffer[start:end]
        if kind == _BULK:
            return text
        return _error(text) if kind == _BULK_ERROR else _verbatim(text)

    def _aggregate(self, kind: int, line: bytes) -> Value | _Open:
        size = _size(line)
        if size is None:
            return None
        if kind == _MAP:
            size *= 2
        self._allow(self._at + size * _SMALLEST_REPLY_BYTES)
        opened = _Open(kind, size)
        return opened if size else opened.value()

    def _allow(self, end: int) -> None:
        """Refuse a reply that reaches further than allowed, before its bytes are waited for."""
        if self._used + end > self._limit:
            raise ProtocolError(f"the store sent a reply of over {self._limit} bytes")

    def _wait(self, wanted: int) -> NeedMore:
        self._wanted = wanted
        return NEED_MORE


class _Open:
    """An aggregate whose elements have not all arrived; a map's keys and values alternate."""

    __slots__ = ("items", "kind", "size")

    def __init__(self, kind: int, size: int) -> None:
        self.kind = kind
        self.size = size
        self.items: list[Value] = []

    def value(self) -> Value:
        if self.kind != _MAP:
            return self.items
        try:
            return dict(zip(self.items[::2], self.items[1::2], strict=True))
        except TypeError as error:
            raise ProtocolError("the store sent a map whose key is an aggregate") from error


def _size(line: bytes) -> int | None:
    """Read how much follows; -1 is RESP2's way to say null."""
    if line.isdigit() and len(line) <= _INT64_DIGITS:
        return int(line)
    if line == b"-1":
        return None
    raise ProtocolError("the store sent a length that is no number")


def _integer(line: bytes) -> int:
    digits = line[1:] if line[:1] in (b"-", b"+") else line
    if not digits.isdigit() or len(digits) > _INT64_DIGITS:
        raise ProtocolError("the store sent an integer that is none")
    return int(line)


def _big(line: bytes) -> int:
    digits = line[1:] if line[:1] in (b"-", b"+") else line
    if not digits.isdigit() or len(digits) > _MAX_BIG_DIGITS:
        raise ProtocolError("the store sent a big number that is none")
    return int(line)


def _double(line: bytes) -> float:
    if line.strip(b"0123456789+-.eE") and line not in _NOT_FINITE:
        raise ProtocolError("the store sent a double that is none")
    try:
        return float(line)
    except ValueError as error:
        raise ProtocolError("the store sent a double that is none") from error


def _boolean(line: bytes) -> bool:
    if line == b"t":
        return True
    if line == b"f":
        return False
    raise ProtocolError("the store sent a boolean that is none")


def _null(line: bytes) -> None:
    if line:
        raise ProtocolError("the store sent a null that is none")


def _simple(line: bytes) -> bytes:
    if b"\n" in line or b"\r" in line:
        raise ProtocolError("the store sent a simple string with a line end in it")
    return line


def _error(text: bytes) -> RespError:
    return RespError(text.decode("utf-8", "replace"))


def _verbatim(text: bytes) -> bytes:
    """Leave out the three letters that name the format, such as `txt:`."""
    if text[3:4] != b":":
        raise ProtocolError("the store sent a verbatim string without its format")
    return text[4:]


_LINES: Final[dict[int, Callable[[bytes], Value]]] = {
    _SIMPLE: _simple,
    _ERROR: _error,
    _INTEGER: _integer,
    _NULL: _null,
    _BOOLEAN: _boolean,
    _DOUBLE: _double,
    _BIG: _big,
}
_KINDS: Final = _BULKS | _AGGREGATES | _LINES.keys()
