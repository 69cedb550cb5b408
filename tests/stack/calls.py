"""What the shared fake upstream saw of one test: the requests that hold its marker."""

from __future__ import annotations

import time
from dataclasses import dataclass

from fakes.record import Record
from fakes.script import Script
from fakes.upstream import UpstreamThread


@dataclass(frozen=True, slots=True)
class Calls:
    """The requests of one marker, and how they are answered."""

    upstream: UpstreamThread
    marker: str

    def answer(self, script: Script, marker: str = "") -> None:
        """Answer every request with this marker (a test's own by default) by the script."""
        self.upstream.mark(marker or self.marker, script)

    @property
    def seen(self) -> list[Record]:
        """Every request so far, the oldest first."""
        wanted = self.marker.encode()
        return [each for each in list(self.upstream.requests) if wanted in each.body]

    @property
    def only(self) -> Record:
        """The one request that was made."""
        (record,) = self.seen
        return record

    def wait(self, count: int = 1, timeout_s: float = 5.0) -> Record:
        """The `count`-th request, as soon as it was received."""
        what = f"request {count} of {self.marker}"
        self.upstream.wait_until(lambda: len(self.seen) >= count, timeout_s, what)
        return self.seen[count - 1]

    def wait_chunks(self, chunks: int, index: int = 0, timeout_s: float = 5.0) -> None:
        """Wait until so many deltas of an answer have left."""
        deadline = time.monotonic() + timeout_s
        while not (len(self.seen) > index and self.seen[index].chunks_sent >= chunks):
            assert time.monotonic() < deadline, f"{chunks} chunks did not leave in {timeout_s} s"
            time.sleep(0.005)

    def wait_closed(self, index: int = 0, timeout_s: float = 5.0) -> float:
        """When the edge closed the connection of a request before its whole answer was sent."""

        def closed() -> bool:
            return len(self.seen) > index and self.seen[index].t_closed_by_peer is not None

        self.upstream.wait_until(closed, timeout_s, f"the close of request {index}")
        at = self.seen[index].t_closed_by_peer
        assert at is not None
        return at
