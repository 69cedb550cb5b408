"""Stream back: what of the model server's bytes goes on to the client, and what they say.

Pure: bytes in, bytes out. Once the first content has passed, an event that differs from it in its
text alone goes on untouched and unparsed; only what may carry an end, a usage or an error is
looked into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import answer, sse, untrusted
from .errors import UpstreamBroke
from .guard_stream import OutputGuard

MAX_EVENT_BYTES = 8_000_000
_CONTENT = b'"content":"'


class Relay:
    """The state of one answer on its way back."""

    __slots__ = (
        "_after", "_before", "_between", "_guard", "_index", "_kept", "_parser", "_texts",
        "_wants_usage", "done", "failed", "has_content", "has_forwarded", "head", "metrics",
        "usage",
    )  # fmt: skip

    def __init__(self, *, wants_usage: bool, keep: bool, guard: OutputGuard | None = None) -> None:
        self._guard = guard
        self._parser = sse.Parser(max_event_bytes=MAX_EVENT_BYTES)
        self._kept: list[dict[str, Any]] | None = [] if keep else None
        self._texts: list[bytes] = []
        self._wants_usage = wants_usage
        self._before = self._after = self._between = b""
        self._index = 0
        self.has_content = False
        self.has_forwarded = False
        self.done = False
        self.failed = False
        self.head: dict[str, Any] = {}
        self.usage: Mapping[str, Any] | None = None
        self.metrics: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether the stream has said its end, a good or a bad one."""
        return self.done or self.failed

    def feed(self, data: bytes) -> bytes:
        """What to forward of these bytes; the end of the stream itself is held back.

        Raises:
            UpstreamBroke: when the bytes are not the events of a chat completion.
        """
        is_simple = self._before and not self.ended and not self._parser.pending()
        if is_simple and self._is_text(data):
            return data
        try:
            payloads = self._parser.feed(data)
        except sse.EventTooLarge as error:
            raise UpstreamBroke("The model server sent an event that is too large.") from error
        return b"".join([self._pass(payload) for payload in payloads])

    def end(self) -> None:
        """Say that the bytes ended.

        Raises:
            UpstreamBroke: when they ended without the end of the stream.
        """
        if not self.ended:
            raise UpstreamBroke("The model server broke off in the middle of its answer.")

    def body(self, choices: int) -> dict[str, Any] | None:
        """The answer as one body, None unless every choice is complete. Needs `keep`.

        Raises:
            UpstreamBroke: when a text that passed unparsed was not JSON's.
        """
        assembler = answer.Assembler(choices)
        self._keep_texts()
        for chunk in self._kept or ():
            assembler.add(chunk)
        return assembler.body() if self.done and assembler.complete else None

    def _is_text(self, data: bytes) -> bool:
        """Whether these are whole events that differ from an earlier one in their text alone.

        A server repeats its chunks but for the text of the delta. What stands between the known
        beginning and the known end is then the inside of JSON strings if it holds no quote and no
        line end; a text with an escaped quote is left to the parser.
        """
        before, after = self._before, self._after
        if not (data.startswith(before) and data.endswith(after)):
            return False
        text = data[len(before) : len(data) - len(after)].replace(self._between, b"")
        if b'"' in text or b"\n" in text or len(data) < len(before) + len(after):
            return False
        if b"\\" in text and b"\\" + after in data:  # a text's end may be an escaped quote
            return False
        if self._kept is not None:
            self._texts.append(text)
        return True

    def _pass(self, payload: bytes) -> bytes:
        if self.ended:
            return b""
        if payload.strip() == sse.DONE:
            self.done = True
            return self._forward(self._guard.end()) if self._guard is not None else b""
        chunk = _chunk(payload)
        if "error" in chunk and not chunk.get("choices"):
            self.failed = True
            return b""
        self._look_into(chunk)
        if self._guard is not None:
            return self._forward(self._guard.feed(chunk))
        if self.has_content:
            self._learn(chunk, payload)
        return self._frame(chunk, payload)

    def _forward(self, chunks: list[dict[str, Any]]) -> bytes:
        """Chunks as the guardrails let them pass."""
        return b"".join([self._frame(chunk, _dump(chunk)) for chunk in chunks])

    def _frame(self, chunk: dict[str, Any], payload: bytes) -> bytes:
        if self._kept is not None:
            self._keep_texts()
            self._kept.append(chunk)
        if not self.has_forwarded:
            self.has_forwarded = answer.has_content(chunk)
        is_usage_only = not chunk.get("choices") and chunk.get("usage") is not None
        return b"" if is_usage_only and not self._wants_usage else sse.frame(payload)

    def _look_into(self, chunk: dict[str, Any]) -> None:
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        if isinstance(chunk.get("metrics"), dict):
            self.metrics = chunk["metrics"]
        if not self.has_content:
            self.has_content = answer.has_content(chunk)
        if not self.head:
            self.head = {name: chunk[name] for name in ("id", "created", "model") if name in chunk}

    def _learn(self, chunk: dict[str, Any], payload: bytes) -> None:
        """Know the next event by this one, if it is a plain piece of text."""
        before, found, rest = payload.partition(_CONTENT)
        text, quote, after = rest.partition(b'"')
        if not found or not quote or _CONTENT in after or not _is_plain_text(chunk, text):
            return
        self._index = chunk["choices"][0]["index"]
        self._before = b"data: " + before + found
        self._after = quote + after + b"\n\n"
        self._between = self._after + self._before

    def _keep_texts(self) -> None:
        """Turn the texts that passed unparsed into one chunk, in their place."""
        if self._texts and self._kept is not None:
            text = _text(b"".join(self._texts))
            delta = {"index": self._index, "delta": {"content": text}}
            self._kept.append({"choices": [delta]})
            self._texts = []


def _is_plain_text(chunk: dict[str, Any], text: bytes) -> bool:
    """Whether a chunk has one choice that goes on, and this text as its whole delta."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or chunk.get("usage") is not None:
        return False
    choice = choices[0]
    return (
        set(choice.get("delta") or ()) == {"content"}
        and isinstance(choice.get("index"), int)
        and choice.get("finish_reason") is None
        and choice.get("logprobs") is None
        and text.isascii()
        and b"\\" not in text
        and choice["delta"]["content"] == text.decode("ascii")
    )


def _dump(chunk: Mapping[str, Any]) -> bytes:
    return json.dumps(chunk, separators=(",", ":")).encode("ascii")


def _text(inside: bytes) -> str:
    try:
        text: str = json.loads(b'"' + inside + b'"')
    except ValueError as error:
        raise UpstreamBroke("The model server sent an event that is not JSON.") from error
    return text


def _chunk(payload: bytes) -> dict[str, Any]:
    try:
        chunk = untrusted.loads(payload)
    except ValueError:
        chunk = None
    if not isinstance(chunk, dict):
        raise UpstreamBroke("The model server sent an event that is not a JSON object.")
    return chunk
