"""Learns from an answer's bytes what it used, while they pass; it changes and holds none of them.

While the answer runs, events are counted and references to its last pieces kept. It is read once,
at its end: the JSON text `"usage":` can only be the field, since quotes inside a text are escaped.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from gpu_backend.gate.outcome import Outcome

# Usage and what may stand behind it (metrics, transfer parameters) fit many times.
_TAIL_BYTES = 32_768
_USAGE = b'"usage":'
_DECODER = json.JSONDecoder()


class Meter:
    """The bytes of one answer. `status` and `streams` are known once its head has passed."""

    def __init__(self) -> None:
        self.status = 0
        self.streams = False
        self._events = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Note the head of the answer."""
        self.status = status
        self.streams = any(
            name.lower() == b"content-type" and value.startswith(b"text/event-stream")
            for name, value in headers
        )

    def feed(self, body: bytes) -> None:
        """Note one piece of the body."""
        if self.streams:
            # An event ends with an empty line; line ends inside a text are escaped.
            self._events += body.count(b"\n\n") or body.count(b"\n\r\n")
        self._tail.append(body)
        self._tail_bytes += len(body)
        while self._tail_bytes - len(self._tail[0]) > _TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def outcome(self, *, ended: bool, input_estimate: int, generated_estimate: int) -> Outcome:
        """What the answer used; `ended`: its last byte came from the engine and left the gate.

        The engine's own count stands where it closes the answer. For a stream that is its `[DONE]`:
        a client that has it may hang up before the transfer has ended. One that broke off has the
        last count that it carried (continuous usage), or else one token for each event, and an
        answer of one piece has `generated_estimate`.
        """
        if ended and self.status >= 400:
            return Outcome(failed=True, undo=self.status in (429, 503))
        tail = b"".join(self._tail)
        counted, closing = _last_usage(tail, self.streams)
        if counted is not None and closing and (ended or self.streams):
            return _exact(counted)
        if counted is not None:
            exact = _exact(counted)
            return Outcome(exact.generated, exact.input_tokens, exact.cached_input, exact=False)
        # The first event of a chat stream names the role and holds no token.
        generated = max(0, self._events - 1) if self.streams else generated_estimate
        return Outcome(generated, input_estimate, exact=False)


def _last_usage(tail: bytes, streams: bool) -> tuple[dict[str, Any] | None, bool]:
    """The last usage object, and whether it is the one that closes the answer."""
    at = len(tail)
    while (at := tail.rfind(_USAGE, 0, at)) >= 0:
        text = tail[at + len(_USAGE) :].lstrip()
        if not text.startswith(b"{"):  # `null`, on the chunks before the last
            continue
        try:
            found, _ = _DECODER.raw_decode(text.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        return found, not streams or _closes(tail, at)
    return None, False


def _closes(tail: bytes, at: int) -> bool:
    """Whether the event around `at` has no choices and `[DONE]` follows it."""
    begin = tail.rfind(b"data:", 0, at)
    end = tail.find(b"\n", at)
    if begin < 0 or end < 0 or b"[DONE]" not in tail[end:]:
        return False
    try:
        document = json.loads(tail[begin + 5 : end])
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("choices") == []


def _exact(usage: dict[str, Any]) -> Outcome:
    details = usage.get("prompt_tokens_details") or {}
    return Outcome(
        generated=_count(usage, "completion_tokens"),
        input_tokens=_count(usage, "prompt_tokens"),
        cached_input=_count(details, "cached_tokens"),
    )


def _count(of: Any, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return value if type(value) is int and value > 0 else 0
