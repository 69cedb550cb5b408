"""Reads one streamed answer as its bytes come: what came when, and how it ended. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_frontend import sse
from nearfar.runs.sample import Failure, Outcome, Usage

_THOUGHT = ("reasoning", "reasoning_content")
_ANSWER = ("content", "tool_calls", "refusal")


@dataclass(slots=True)
class Reading:
    """What a stream has given so far; instants are those of the bytes that completed an event.

    Content is a non-empty text, reasoning, refusal or tool call of a delta. A role alone, a
    comment or an empty text is none.
    """

    first_content_s: float | None = None
    first_answer_s: float | None = None
    last_content_s: float | None = None
    gaps_ms: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage | None = None
    record: Mapping[str, Any] | None = None
    answer_id: str | None = None
    failure: Failure | None = None
    done: bool = False
    _text: list[str] = field(default_factory=list)
    _parser: sse.Parser = field(default_factory=sse.Parser)

    def feed(self, data: bytes, at_s: float) -> None:
        """Take bytes that came at an instant."""
        if self.failure is not None:
            return
        try:
            for payload in self._parser.feed(data):
                if payload == sse.DONE:
                    self.done = True
                else:
                    self._take(json.loads(payload), at_s)
        except (ValueError, TypeError, AttributeError):
            self.failure = Failure("not_a_chat_stream", "client")

    @property
    def text(self) -> str:
        """The answer's text, reasoning apart."""
        return "".join(self._text)

    @property
    def sha256(self) -> str | None:
        """Digest of the answer's text; None where it has none."""
        return hashlib.sha256(self.text.encode()).hexdigest() if self._text else None

    def outcome(self) -> Outcome:
        """How the stream went, now that it has ended."""
        if self.failure is not None:
            return "failed"
        if not self.done:
            return "cut"
        return "ok" if self.first_content_s is not None else "empty"

    def _take(self, chunk: dict[str, Any], at_s: float) -> None:
        if chunk.get("error"):
            self.failure = failure(chunk)
            return
        self.answer_id = chunk.get("id") or self.answer_id
        self.record = chunk.get("nearfar") or self.record
        if chunk.get("usage"):
            self.usage = usage(chunk["usage"])
        thought = answered = False
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            answered = answered or any(delta.get(name) for name in _ANSWER)
            thought = thought or any(delta.get(name) for name in _THOUGHT)
            if delta.get("content"):
                self._text.append(delta["content"])
        if thought or answered:
            self._content(at_s, answered=answered)

    def _content(self, at_s: float, *, answered: bool) -> None:
        if self.last_content_s is None:
            self.first_content_s = at_s
        else:
            self.gaps_ms.append(round((at_s - self.last_content_s) * 1000, 4))
        if answered and self.first_answer_s is None:
            self.first_answer_s = at_s
        self.last_content_s = at_s


def usage(found: Mapping[str, Any]) -> Usage:
    """Read a usage object; what it does not tell is None."""
    details = found.get("prompt_tokens_details") or {}
    return Usage(
        found.get("prompt_tokens"), found.get("completion_tokens"), details.get("cached_tokens")
    )


def failure(document: Any) -> Failure:
    """Read an error object of a body or a stream; its message may hold anything and is left out."""
    error = document.get("error") if isinstance(document, Mapping) else None
    if not isinstance(error, Mapping):
        return Failure("unknown", "")
    code = error.get("code")
    return Failure("unknown" if code is None else str(code), str(error.get("type") or ""))
