"""Server-Sent Events as bytes: an incremental parser for any legal framing, and the frames we send.

Source: WHATWG HTML, 9.2.5 "Parsing an event stream" and 9.2.6 "Interpreting an event stream".
Nothing is decoded here: a multi-byte character may be split over two reads, while line ends,
field names and the byte order mark are single bytes or known bytes in UTF-8.
"""

from __future__ import annotations

from typing import Final

DONE: Final = b"[DONE]"

# The largest event of a chat stream is one chunk with top_logprobs or a whole tool call; a
# megabyte is also what an edge key-value store takes as one value.
MAX_EVENT_BYTES: Final = 1 << 20

_BOM: Final = b"\xef\xbb\xbf"
_FIELD: Final = b"data: "
_BETWEEN: Final = b"\n\ndata: "


class EventTooLarge(ValueError):
    """A line or the data of one event is larger than allowed; the stream cannot be read on."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"an event of the stream is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


def frame(payload: bytes) -> bytes:
    """Return one event that carries the payload, a data line for each line of it.

    A carriage return ends a line in the format, so it arrives as a newline.
    """
    if b"\r" in payload:
        payload = payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in payload:
        payload = payload.replace(b"\n", b"\ndata: ")
    return b"data: %b\n\n" % payload


class Parser:
    """Gives the payload of each event as soon as the bytes that end it have arrived.

    No more than `max_event_bytes` of one line, and as many of an event's data, are ever kept.
    """

    __slots__ = ("_after_cr", "_data", "_data_bytes", "_limit", "_line", "_open", "_started")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()  # the line whose end has not arrived
        self._data: list[bytes] = []  # data lines of the event that has not ended
        self._data_bytes = 0
        self._open = False  # a field, of whatever name, came since the last event ended
        self._after_cr = False  # the last byte was CR: an LF that follows belongs to it
        self._started = False  # the place of the byte order mark is behind us

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of all events that these bytes complete, in order.

        Raises EventTooLarge when a line, or the data lines of one event, exceed the limit.
        """
        if not self._started:
            data = self._skip_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if self._line:
            if b"\n" not in data and b"\r" not in data:
                self._keep(data)
                return []
            data = bytes(self._line) + data
            self._line.clear()
        if self._open or not data.startswith(_FIELD):
            return self._by_lines(data, [])
        return self._by_events(data)

    def pending(self) -> bool:
        """Tell whether an event has begun and not ended: a stream that ends here broke off."""
        return self._open or bool(self._line)

    def _skip_bom(self, data: bytes) -> bytes:
        """Take a byte order mark off the start; what may still become one waits."""
        data = bytes(self._line) + data
        self._line.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._line += data
            return b""
        self._started = True
        return data.removeprefix(_BOM)

    def _by_events(self, data: bytes) -> list[bytes]:
        """Cut at the seams of the usual framing, leaving anything else to the lines.

        All is well when the blank lines at the seams are the only line ends there are.
        """
        end = data.rfind(b"\n\n")
        if end < 0 or end > self._limit or b"\r" in data:
            return self._by_lines(data, [])
        events = data[len(_FIELD) : end].split(_BETWEEN)
        if data.count(b"\n", 0, end) != 2 * (len(events) - 1):
            return self._by_lines(data, [])
        rest = data[end + 2 :]
        return self._by_lines(rest, events) if rest else events

    def _by_lines(self, data: bytes, events: list[bytes]) -> list[bytes]:
        """Add to the events what these bytes complete, line by line, as the standard says."""
        if not data:
            return events
        lines = data.splitlines()  # for bytes these are CR, LF and CRLF, nothing else
        last = data[-1]
        self._after_cr = last == 13
        unfinished = lines.pop() if last != 10 and last != 13 else b""
        for line in lines:
            if len(line) > self._limit:
                raise EventTooLarge(self._limit)
            if line:
                self._field(line)
            elif self._open:
                self._end_event(events)
        if unfinished:
            self._keep(unfinished)
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if not name:  # a comment
            return
        self._open = True
        if name != b"data":
            return
        value = value.removeprefix(b" ")
        self._data_bytes += len(value) + 1
        if self._data_bytes - 1 > self._limit:
            raise EventTooLarge(self._limit)
        self._data.append(value)

    def _end_event(self, events: list[bytes]) -> None:
        if self._data:
            events.append(b"\n".join(self._data))
            self._data.clear()
            self._data_bytes = 0
        self._open = False

    def _keep(self, unfinished: bytes) -> None:
        if len(self._line) + len(unfinished) > self._limit:
            raise EventTooLarge(self._limit)
        self._line += unfinished
