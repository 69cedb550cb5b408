"""Stream back: what of the model server's bytes goes on to the client, and what they say.

Pure: bytes in, bytes out. Once the first content has passed, a piece in the framing that model
servers use goes on untouched and unparsed; only what may carry an end, a usage or an error is
looked into.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import answer, sse
from .errors import UpstreamBroke

MAX_EVENT_BYTES = 8_000_000


class Relay:
    """The state of one answer on its way back."""

    __slots__ = ("_kept", "_parser", "_wants_usage", "done", "failed", "has_content", "head", "metrics", "usage")

    def __init__(self, *, wants_usage: bool, keep: bool) -> None:
        self._parser = sse.Parser(max_event_bytes=MAX_EVENT_BYTES)
        self._kept: list[bytes] | None = [] if keep else None
        self._wants_usage = wants_usage
        self.has_content = False
        self.done = False
        self.failed: bytes | None = None
        self.head: dict[str, Any] = {}
        self.usage: Mapping[str, Any] | None = None
        self.metrics: Mapping[str, Any] | None = None

    def feed(self, data: bytes) -> bytes:
        """What to forward of these bytes; the end of the stream itself is held back.

        Raises:
            UpstreamBroke: when the bytes are not the events of a chat completion.
        """
        if self.has_content and not self._parser.pending() and _is_plain(data):
            if self._kept is not None:
                self._kept.append(data)
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
        if not self.done and self.failed is None:
            raise UpstreamBroke("The model server broke off in the middle of its answer.")

    def body(self, choices: int) -> dict[str, Any] | None:
        """The answer as one body, None unless every choice is complete. Needs `keep`."""
        assembler = answer.Assembler(choices)
        for payload in self._payloads():
            assembler.add(json.loads(payload))
        return assembler.body() if self.done and assembler.complete else None

    def _payloads(self) -> list[bytes]:
        parser, payloads = sse.Parser(max_event_bytes=MAX_EVENT_BYTES), list[bytes]()
        for piece in self._kept or ():
            payloads += parser.feed(piece)
        return payloads

    def _pass(self, payload: bytes) -> bytes:
        if self.done or self.failed is not None:
            return b""
        if payload.strip() == sse.DONE:
            self.done = True
            return b""
        chunk = _chunk(payload)
        if "error" in chunk and not chunk.get("choices"):
            self.failed = payload
            return b""
        framed = sse.frame(payload)
        if self._kept is not None:
            self._kept.append(framed)
        self._look_into(chunk)
        is_usage_only = not chunk.get("choices") and chunk.get("usage") is not None
        return b"" if is_usage_only and not self._wants_usage else framed

    def _look_into(self, chunk: Mapping[str, Any]) -> None:
        if isinstance(chunk.get("usage"), dict):
            self.usage = chunk["usage"]
        if isinstance(chunk.get("metrics"), dict):
            self.metrics = chunk["metrics"]
        self.has_content = self.has_content or answer.has_content(chunk)
        if not self.head:
            self.head = {name: chunk[name] for name in ("id", "created", "model") if name in chunk}


def _chunk(payload: bytes) -> dict[str, Any]:
    try:
        chunk = json.loads(payload)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        raise UpstreamBroke("The model server sent an event that is not a JSON object.")
    return chunk


def _is_plain(data: bytes) -> bool:
    """Whole `data: {…}` events with line feeds, none of them an end, a usage or an error.

    In JSON a quote inside a text is escaped, so these byte patterns can only be names of fields.
    """
    events = data.count(b"\n\n")
    return (
        data.startswith(b"data: {")
        and data.endswith(b"}\n\n")
        and data.count(b"\n") == 2 * events
        and data.count(b"\n\ndata: {") == events - 1
        and b"\r" not in data
        and b'"error"' not in data
        and b'"metrics"' not in data
        and _all_null(data, b'"usage"')
        and _all_null(data, b'"finish_reason"')
    )


def _all_null(data: bytes, name: bytes) -> bool:
    found = data.count(name)
    return not found or found == data.count(name + b":null") + data.count(name + b": null")
