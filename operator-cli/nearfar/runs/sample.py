"""One request of a run: named instants on the client's clock, durations derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nearfar.record import Record

Phase = Literal["warmup", "measured"]
# ok: a whole answer with content. refused: an error status. failed: nothing answered, or an
# error event in the stream. aborted: we ended it. empty: a whole answer without any content.
# cut: the stream ended before its end.
Outcome = Literal["ok", "refused", "failed", "aborted", "empty", "cut"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the model server gave them; a chunk is not a token."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: the code and type of an error object, or the client's own."""

    code: str
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request. `*_s` count from the run's start on the client's monotonic clock.

    `sent_s` is when the request began, the opening of a connection included. A gap lies between
    two chunks with content. None: not observed, and `not_available` says why.
    """

    i: int
    block: int = 0
    phase: Phase = "measured"
    arm: str | None = None
    scheduled_s: float | None = None
    sent_s: float
    headers_s: float | None = None
    first_content_s: float | None = None
    first_answer_s: float | None = None
    last_content_s: float | None = None
    end_s: float | None = None
    gaps_ms: tuple[float, ...] = ()
    connection: Literal["new", "reused"] | None = None
    status: int | None = None
    outcome: Outcome
    error: Failure | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    x_cache: str | None = None
    request_id: str | None = None
    prompt_id: str
    category: str | None = None
    answer_sha256: str | None = None
    record: Mapping[str, Any] | None = None
    not_available: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    answer: str | None = None
    expected: str | None = None

    @property
    def ok(self) -> bool:
        """Whether a whole answer with content came. Only such a request enters latency."""
        return self.outcome == "ok"

    @property
    def headers_ms(self) -> float | None:
        """From sending to the response's head."""
        return _ms(self.headers_s, self.sent_s)

    @property
    def first_content_ms(self) -> float | None:
        """From sending to the first content: text, reasoning, a refusal or a tool call."""
        return _ms(self.first_content_s, self.sent_s)

    @property
    def first_answer_ms(self) -> float | None:
        """From sending to the first content that is not reasoning."""
        return _ms(self.first_answer_s, self.sent_s)

    @property
    def from_schedule_ms(self) -> float | None:
        """From when the request was due to its first content; in a closed loop none is due."""
        return _ms(self.first_content_s, self.scheduled_s)

    @property
    def late_ms(self) -> float | None:
        """How long after it was due the request was sent."""
        return _ms(self.sent_s, self.scheduled_s)

    @property
    def end_to_end_ms(self) -> float | None:
        """From sending to the end of the answer."""
        return _ms(self.end_s, self.sent_s)

    @property
    def end_from_schedule_ms(self) -> float | None:
        """From when the request was due to the end of the answer."""
        return _ms(self.end_s, self.scheduled_s)

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer as the model server counted them; None without usage."""
        return self.usage.output_tokens if self.usage else None

    @property
    def input_tokens(self) -> int | None:
        """Tokens of the prompt as the model server counted them; None without usage."""
        return self.usage.input_tokens if self.usage else None

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token: (last content - first content) / (output tokens - 1)."""
        tokens = self.output_tokens
        span_ms = _ms(self.last_content_s, self.first_content_s)
        return None if tokens is None or tokens < 2 or span_ms is None else span_ms / (tokens - 1)

    @property
    def chunks(self) -> int:
        """Chunks with content."""
        return 0 if self.first_content_s is None else len(self.gaps_ms) + 1

    def recorded(self, path: str) -> Any:
        """A field of the edge's record by its dotted name; None where there is none."""
        return None if self.record is None else Record(self.record).value(path)


def _ms(to_s: float | None, from_s: float | None) -> float | None:
    return None if to_s is None or from_s is None else (to_s - from_s) * 1000
