"""The `traceparent` header: read what a client sent, write what the upstream gets.

Source: W3C Trace Context, Level 1 (2021-11-23), section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_HEX: Final = b"0123456789abcdef"  # capitals are not allowed (section 3.2.2)
_NO_TRACE: Final = b"0" * 32
_NO_SPAN: Final = b"0" * 16
_BYTES: Final = 55  # 2 + 1 + 32 + 1 + 16 + 1 + 2
_SAMPLED: Final = 0x01  # the only flag that version 00 defines


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One span's place in a trace: 32 and 16 lower-case hex digits, neither all zero."""

    trace_id: str
    span_id: str
    sampled: bool

    def __post_init__(self) -> None:
        if not _is_id(self.trace_id.encode(), _NO_TRACE):
            raise ValueError("a trace id is 32 lower-case hex digits that are not all zero")
        if not _is_id(self.span_id.encode(), _NO_SPAN):
            raise ValueError("a span id is 16 lower-case hex digits that are not all zero")

    def header(self) -> str:
        """Return the value of `traceparent` in version 00; flags unknown to it are zero."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(values: list[bytes]) -> TraceContext | None:
    """Return what the request's `traceparent` says, or None when it must be ignored.

    `values` are the values of all header fields of that name; there may only be one. A version
    above 00 is read by the fields it shares with 00 (section 4.3); ff is never valid.
    """
    if len(values) != 1:
        return None
    value = values[0].strip(b" \t")
    version, trace_id, span_id, flags = value[:2], value[3:35], value[36:52], value[53:55]
    if len(value) < _BYTES or value[2:3] + value[35:36] + value[52:53] != b"---":
        return None
    if not _is_hex(version) or version == b"ff" or not _is_hex(flags):
        return None
    if len(value) > _BYTES and (version == b"00" or value[55:56] != b"-"):
        return None
    if not _is_id(trace_id, _NO_TRACE) or not _is_id(span_id, _NO_SPAN):
        return None
    sampled = bool(int(flags, 16) & _SAMPLED)
    return TraceContext(trace_id.decode("ascii"), span_id.decode("ascii"), sampled)


def child(context: TraceContext | None, trace_id: bytes, span_id: bytes) -> TraceContext:
    """Return the context of a span below `context`, or the first span of a new, sampled trace.

    `trace_id` (16 random bytes, used for a new trace only) and `span_id` (8 random bytes) must
    not be all zero. Raises ValueError when an id that is used is not of that form.
    """
    if context is not None:
        return TraceContext(context.trace_id, span_id.hex(), context.sampled)
    return TraceContext(trace_id.hex(), span_id.hex(), sampled=True)


def _is_id(digits: bytes, zero: bytes) -> bool:
    return len(digits) == len(zero) and digits != zero and _is_hex(digits)


def _is_hex(digits: bytes) -> bool:
    return not digits.strip(_HEX)
