"""The fake's streamed answer: server-sent events with the time each is due."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from .answer import (
    CREATED,
    ID,
    choices_of,
    finish_reason_of,
    logprobs_of,
    tool_call_deltas,
    usage_of,
)
from .ask import Ask, pieces_of
from .script import Script, error_body


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `at_ms` counts from the receipt of the request."""

    at_ms: float
    kind: str  # role, reasoning, content, tool, finish, usage, done, error, comment, half
    data: bytes

    @property
    def is_delta(self) -> bool:
        """Whether the event carries content, reasoning or a part of a tool call."""
        return self.kind in ("reasoning", "content", "tool")


@lru_cache(maxsize=256)
def render_stream(ask: Ask, script: Script) -> tuple[Event, ...]:
    """Every event that leaves, in order, up to where the script ends the stream."""
    events = _ended(script, [*_chunks(ask, script), _framed(script, 0.0, "done", ["[DONE]"])])
    if script.comment_ms is not None:
        text = f": keep-alive{script.line_end * 2}"
        events.append(Event(script.comment_ms, "comment", text.encode()))
        events.sort(key=lambda event: event.at_ms)  # stable: the order at one time stays
    if script.bom and events:
        events[0] = replace(events[0], data=b"\xef\xbb\xbf" + events[0].data)
    return tuple(events)


def total_ms(ask: Ask, script: Script) -> float:
    """When the last event of the answer is due; a whole body is sent then."""
    return max((event.at_ms for event in render_stream(ask, script)), default=0.0)


def _chunks(ask: Ask, script: Script) -> Iterator[Event]:
    """Role, delta, finish and usage chunks, as vLLM 0.32 sends them."""
    n = choices_of(ask, script)
    deltas = list(_deltas(ask, script))
    first_ms = min((at_ms for at_ms, _, _, _ in deltas), default=script.first_content_ms)
    last_ms = max((at_ms for at_ms, _, _, _ in deltas), default=script.first_content_ms)
    if script.role_chunk:
        at_ms = first_ms if script.role_ms is None else script.role_ms
        unset = {"prompt_token_ids": None, "prompt_text": None}
        for index in range(n):
            delta = {"role": "assistant", "content": ""}
            choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
            yield _chunk(ask, script, at_ms, "role", [choice], unset)
    for at_ms, kind, index, delta in deltas:
        logprobs = logprobs_of(ask, [delta["content"]] if kind == "content" else [])
        choice = {"index": index, "delta": delta, "logprobs": logprobs}
        yield _chunk(ask, script, at_ms, kind, [{**choice, **_UNFINISHED}])
    for index in range(n):
        end = {"finish_reason": finish_reason_of(ask, script), "stop_reason": None}
        choice = {"index": index, "delta": {"content": ""}, "logprobs": None}
        yield _chunk(ask, script, last_ms, "finish", [{**choice, **end, "token_ids": None}])
    if ask.include_usage:
        yield _chunk(ask, script, last_ms, "usage", [], _usage(ask, script))


_UNFINISHED = {"finish_reason": None, "token_ids": None}


def _deltas(ask: Ask, script: Script) -> Iterator[tuple[float, str, int, dict[str, Any]]]:
    """(due time, kind, choice, delta) of all between role and finish; choices take turns."""
    n = choices_of(ask, script)
    at_ms = script.first_content_ms if script.reasoning_ms is None else script.reasoning_ms
    for piece in script.reasoning:
        for index in range(n):
            yield at_ms, "reasoning", index, {"reasoning": piece}
        at_ms += script.gap_ms
    at_ms = max(at_ms, script.first_content_ms) if script.reasoning else script.first_content_ms
    for position in range(len(pieces_of(ask, script))):
        for index in range(n):
            yield at_ms, "content", index, {"content": pieces_of(ask, script, index)[position]}
        at_ms += script.gap_ms
    for position in range(len(script.tool_calls)):
        for call in tool_call_deltas(script, position):
            for index in range(n):
                yield at_ms, "tool", index, {"tool_calls": [call]}
            at_ms += script.gap_ms


def _usage(ask: Ask, script: Script) -> dict[str, Any]:
    """What rides on the last chunk; vLLM leaves the metrics out for more than one choice."""
    usage: dict[str, Any] = {"usage": usage_of(ask, script)}
    if script.metrics is not None and choices_of(ask, script) == 1:
        usage["metrics"] = {k: v for k, v in script.metrics.items() if v is not None}
    return usage


def _ended(script: Script, events: list[Event]) -> list[Event]:
    """The events that the script's end leaves, `[DONE]` timed after the others."""
    *chunks, done = events
    done = replace(done, at_ms=chunks[-1].at_ms if chunks else script.first_content_ms)
    if script.end == "done":
        return [*chunks, done]
    if script.end == "no_done" and script.end_after is None:
        return chunks
    kept = _until_delta(chunks, script.end_after)
    at_ms = kept[-1].at_ms if kept else script.first_content_ms
    if script.end_mid_frame and len(kept) < len(chunks):
        cut = chunks[len(kept)]
        kept.append(Event(cut.at_ms, "half", cut.data[: len(cut.data) // 2]))
    if script.end == "error":
        failure = json.loads(error_body(500, "EngineCore encountered an issue."))
        kept += [_event(script, at_ms, "error", failure), replace(done, at_ms=at_ms)]
    return kept


def _until_delta(chunks: Sequence[Event], count: int | None) -> list[Event]:
    """The chunks up to and with the `count`-th delta; with the last one when None."""
    kept: list[Event] = []
    sent = 0
    for event in chunks:
        if event.kind in ("finish", "usage") or (event.is_delta and sent == count):
            break
        kept.append(event)
        sent += event.is_delta
    return kept


def _chunk(
    ask: Ask,
    script: Script,
    at_ms: float,
    kind: str,
    choices: list[dict[str, Any]],
    more: dict[str, Any] | None = None,
) -> Event:
    chunk: dict[str, Any] = {
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": ask.model,
        "choices": choices,
    }
    return _event(script, at_ms, kind, {**chunk, **(more or {}), **(script.extra or {})})


def _event(script: Script, at_ms: float, kind: str, value: dict[str, Any]) -> Event:
    if script.split_data:
        # JSON allows line breaks between its tokens, so the joined lines are the same value.
        lines = json.dumps(value, ensure_ascii=False, indent=0).split("\n")
    else:
        lines = [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    return _framed(script, at_ms, kind, lines)


def _framed(script: Script, at_ms: float, kind: str, lines: Sequence[str]) -> Event:
    space = " " if script.space else ""
    out = [": a comment"] if script.comments else []
    if script.event_fields:
        out += ["id: 7", "event: message", "retry: 3000"]
    out += [f"data:{space}{line}" for line in lines]
    return Event(at_ms, kind, "".join(f"{line}{script.line_end}" for line in (*out, "")).encode())
