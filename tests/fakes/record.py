"""What the fake upstream saw of one request."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(eq=False)
class Record:
    """One received request and how its answer went; times are `time.monotonic()` seconds.

    `cached_property` needs a `__dict__`, hence no slots.
    """

    method: str
    path: str
    headers: list[tuple[str, str]]  # in the order and case of the wire
    body: bytes
    t_received: float
    number: int = 0  # counts the requests of one server, from 1
    t_started: float | None = None  # when it got one of the server's slots, if those are bounded
    t_head_sent: float | None = None
    t_first_content_sent: float | None = None
    chunks_sent: int = 0  # deltas: content, reasoning or tool call
    deltas_sent_ms: list[float] = field(default_factory=list)  # each, counted from the receipt
    t_closed_by_peer: float | None = None  # the peer's socket closed before the answer was whole
    t_finished: float | None = None

    @property
    def finished(self) -> bool:
        """Whether a whole HTTP answer was sent (a scripted break-off is not one)."""
        return self.t_finished is not None

    @cached_property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object; numbers keep every digit, as Python's integers do."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise TypeError("the request body is JSON but not an object")
        return value

    def header(self, name: str) -> str | None:
        """The first value of a header, by its name in any case."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)
