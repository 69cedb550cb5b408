"""Pour one body of the host into another without a task's turn for every piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ports import Last
from .waits import DROPPED, Listener, new_future

MOST_PIECES = 64  # that are already there, read before they are written as one


class Pour:
    """One pouring, from a reader to a writer through `feed`.

    `done` resolves to True when `feed` had enough, to False when the body ended before that, and to
    the exception of `feed`; what was to be written has been by then. `gone` says that the other end
    listens no more.
    """

    __slots__ = (
        "_ended",
        "_enough",
        "_failure",
        "_feed",
        "_out",
        "_reader",
        "_reading",
        "_writer",
        "_writing",
        "done",
        "gone",
    )

    def __init__(self, reader: Any, writer: Any, feed: Callable[[bytes], bytes]) -> None:
        self._reader, self._writer, self._feed = reader, writer, feed
        self._reading, self._writing = Listener(self._on_read), Listener(self._on_write)
        self._out: list[bytes] = []
        self._enough = self._ended = False
        self._failure: Exception | None = None
        self.gone: bool = writer.reader_dropped
        self.done = new_future()

    def start(self) -> None:
        """Go on as far as it goes without waiting."""
        reading, writing = self._reading, self._writing
        while True:
            while not (self._ended or reading.waits or len(self._out) >= MOST_PIECES):
                result = (
                    reading.read(self._reader)
                    if not self._reader.writer_dropped
                    else (DROPPED, b"")
                )
                if result is not None:
                    self._take(result)
            if self._out and not writing.waits:
                written = writing.write(self._writer, self._join())
                if written is not None:
                    self._wrote(written)
            if writing.waits or (reading.waits and not self._ended):
                return
            if self._ended and not self._out:
                self._finish()
                return

    def probe(self) -> None:
        """Write nothing, which tells whether the other end still listens; `gone` knows it then."""
        if not self._writing.waits and not self._out and not self.gone:
            written = self._writing.write(self._writer, b"")
            if written is not None:
                self._wrote(written)

    def _on_read(self, result: tuple[int, bytes]) -> None:
        self._take(result)
        self.start()

    def _on_write(self, result: tuple[int, int]) -> None:
        self._wrote(result)
        self.start()

    def _take(self, result: tuple[int, bytes]) -> None:
        code, data = result
        if data:
            try:
                piece = self._feed(data)
            except Exception as error:  # noqa: BLE001 it is raised where the pouring is awaited
                self._failure, self._ended = error, True
                return
            if piece and not self.gone:
                self._out.append(piece)
            if type(piece) is Last:
                self._enough = self._ended = True
        if code == DROPPED:
            self._reader.writer_dropped = self._ended = True

    def _join(self) -> bytes:
        if len(self._out) > 1:
            self._out = [b"".join(self._out)]
        return self._out[0]

    def _wrote(self, result: tuple[int, int]) -> None:
        code, count = result
        if code == DROPPED:
            self._writer.reader_dropped = self.gone = True
            self._out.clear()
        elif count:
            # What was written stands at the front, what came meanwhile behind it.
            rest = self._out[0][count:]
            self._out[:1] = [rest] if rest else []

    def _finish(self) -> None:
        if self.done.done():
            return
        if self._failure is not None:
            self.done.set_exception(self._failure)
        else:
            self.done.set_result(self._enough)
