"""What the fake upstream does with one request, as one value."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Literal

End = Literal["done", "no_done", "fin", "rst", "hang", "error"]
Framing = Literal["chunked", "close", "length"]

# The shape is vLLM 0.32's PerRequestMetrics; the figures are made up and stand for a GPU's.
METRICS: Mapping[str, Any] = {
    "time_to_first_token_ms": 41.5,
    "generation_time_ms": 150.25,
    "queue_time_ms": 1.75,
    "mean_itl_ms": 10.5,
    "tokens_per_second": 62.5,
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Script:
    """How the fake upstream answers: what it says, when, in which framing and how it ends.

    Times (`*_ms`) count from the moment the whole request was received; `None` means "together
    with what follows". A deviation from the defaults is always asked for by name.
    """

    # The head.
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None  # the whole body, sent with Content-Length instead of an answer
    echo_key: bool = False  # an error body that repeats the Authorization it was sent
    head_ms: float = 0.0

    # The answer. Without `content` or `pieces` it echoes the last user text, split into words.
    content: str | None = None
    pieces: tuple[str, ...] | None = None  # the deltas themselves
    chunks: int | None = None  # that many deltas, by repeating or cutting the words
    reasoning: tuple[str, ...] = ()
    tool_calls: tuple[tuple[str, str], ...] = ()  # (function name, JSON text of its arguments)
    n: int | None = None  # choices; the request's own `n` when None
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None  # in place of the counts
    metrics: Mapping[str, Any] | None = None  # per-request metrics, see METRICS
    role_chunk: bool = True
    extra: Mapping[str, Any] | None = None  # unknown fields of every chunk, or of the body
    anew: bool = False  # put together for each request; else a question that came before is quicker

    # The pace.
    role_ms: float | None = None
    comment_ms: float | None = None  # one SSE comment at that time
    reasoning_ms: float | None = None
    first_content_ms: float = 0.0
    gap_ms: float = 0.0

    # The framing.
    framing: Framing = "chunked"
    write_bytes: int | None = None  # bytes a write; None: one event a write; 0: all at once
    write_gap_ms: float = 0.0  # pause between the writes of one event
    line_end: str = "\n"
    bom: bool = False
    comments: bool = False  # a comment before every event
    space: bool = True  # after "data:"
    split_data: bool = False  # each JSON text over several data lines
    event_fields: bool = False  # id:, event: and retry: lines beside data:

    # The end.
    end: End = "done"
    end_after: int | None = None  # after that many deltas; None: after all of them
    end_mid_frame: bool = False  # half of the next event still leaves
    end_before_head: bool = False  # `fin`, `rst` or `hang` in place of any answer

    def __post_init__(self) -> None:
        if self.line_end not in ("\n", "\r\n", "\r"):
            raise ValueError(f"line_end must be LF, CRLF or CR, not {self.line_end!r}")
        if self.end_before_head and self.end not in ("fin", "rst", "hang"):
            raise ValueError(f"end={self.end!r} needs a head")
        if self.end_after is not None and self.end == "done":
            raise ValueError("end_after says where a break-off happens; end is 'done'")
        if self.framing == "length" and self.end not in ("done", "no_done", "error"):
            raise ValueError("a break-off is for chunked or close framing")
        if min(self.head_ms, self.first_content_ms, self.gap_ms, self.write_gap_ms) < 0:
            raise ValueError("times are at least 0 ms")

    @property
    def is_error(self) -> bool:
        """Whether one body with Content-Length is sent instead of an answer."""
        return self.status != 200 or self.body is not None


def error_script(status: int, message: str = "made-up failure", **changes: Any) -> Script:
    """A script that answers with vLLM's error object and the given status."""
    return Script(status=status, body=error_body(status, message), **changes)


def error_body(status: int, message: str, param: str | None = None) -> bytes:
    """vLLM 0.32's error object (`ErrorResponse.model_dump()`)."""
    names = {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError"}
    kind = names.get(status, "InternalServerError")
    error = {"message": message, "type": kind, "param": param, "code": status}
    return json.dumps({"error": error}).encode()


def http_date_in(seconds: float) -> str:
    """The HTTP date that lies `seconds` from now (RFC 9110 section 5.6.7)."""
    return formatdate(time.time() + seconds, usegmt=True)
