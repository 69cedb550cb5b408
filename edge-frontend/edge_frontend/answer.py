"""One whole chat.completion from the chunks of a stream, and the chunks from the whole.

Merge rules, by where a value stands (source: the OpenAI chat streaming reference, and what
vLLM 0.32 sends):

- anywhere: null never erases a value; numbers and booleans replace; lists grow; objects merge.
- inside a delta: `role`, `id`, `type` and `name` keep their first text; every other text grows,
  fields we do not know included.
- inside a choice but outside its delta (`finish_reason`, `logprobs`, ...): text replaces.
- `delta.tool_calls`: merged by `index`, which the whole answer does not have. A call without
  one begins a call when it has an id, and goes on with the newest when not.
- at the top: the last value that is not null; `usage: null` is as good as absent.

A chunk that has not the shape of one is left out, and makes `complete` False for good.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

# One JSON object of a foreign format, whose unknown fields must survive.
Json: TypeAlias = dict[str, Any]

_KEEP_FIRST: Final = frozenset({"role", "id", "type", "name"})
_FAILED: Final = frozenset({"error", "abort"})  # how vLLM ends a choice that it gave up
_HEAD: Final = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_WITH_USAGE: Final = ("usage", "metrics")
_NOT_FIELDS: Final = ("index", "message")  # some servers send an empty message beside the delta
_REASONING: Final = ("reasoning", "reasoning_content")
_ANSWER: Final = ("content", "refusal")

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class _Text(list[str]):
    """A text that still grows; kept in pieces so that a long answer is joined once."""

    __slots__ = ()


class _Choice:
    """What is known of one choice, its message apart from the rest."""

    __slots__ = ("calls", "fields", "message", "newest")

    def __init__(self) -> None:
        self.fields: Json = {}
        self.message: Json = {}
        self.calls: dict[int, Json] = {}
        self.newest = -1

    @property
    def ended(self) -> bool:
        reason = self.fields.get("finish_reason")
        return isinstance(reason, str) and bool(reason) and reason not in _FAILED

    def call(self, delta: Json) -> Json:
        """Return the tool call that a delta belongs to, a new one if need be."""
        index = delta.get("index")
        if type(index) is not int:
            begins = bool(delta.get("id")) or self.newest < 0
            index = max(self.calls, default=-1) + 1 if begins else self.newest
        self.newest = index
        return self.calls.setdefault(index, {})

    def whole(self, index: int) -> Json:
        """Return the choice as a whole answer has it."""
        message: Json = {"role": None, "content": None} | _plain(self.message)
        message["role"] = message["role"] or "assistant"
        if self.calls:
            message["tool_calls"] = [_plain(call) for _, call in sorted(self.calls.items())]
            message["content"] = message["content"] or None
        fields: Json = _plain(self.fields)
        return {"index": index, "message": message, "finish_reason": None, **fields}


class Assembler:
    """Puts the chunks of one streamed answer together; `choices` is the request's `n`."""

    __slots__ = ("_broken", "_choices", "_fields", "_n")

    def __init__(self, choices: int = 1) -> None:
        self._n = choices
        self._choices: dict[int, _Choice] = {}
        self._fields: Json = {}
        self._broken = False

    def add(self, chunk: Json) -> None:
        """Take the next chunk; it is left as it is."""
        for name, value in chunk.items():
            if name == "choices":
                for choice in self._objects(value):
                    self._add_choice(choice)
            elif name == "error":
                self._broken = self._broken or value is not None
            elif value is not None:
                self._fields[name] = value
            else:
                self._fields.setdefault(name, None)

    @property
    def complete(self) -> bool:
        """Tell whether every choice that was asked for, and no other, has come to its end."""
        choices = self._choices
        return (
            not self._broken
            and len(choices) == self._n
            and all(index in choices and choices[index].ended for index in range(self._n))
        )

    @property
    def usage(self) -> Json | None:
        """The token counts that came last, or None."""
        usage = self._fields.get("usage")
        return usage if isinstance(usage, dict) else None

    @property
    def metrics(self) -> Json | None:
        """The engine's own times of this request (vLLM, one choice), or None."""
        metrics = self._fields.get("metrics")
        return metrics if isinstance(metrics, dict) else None

    def body(self) -> Json:
        """Return what has come so far as a chat.completion object of its own."""
        body: Json = {
            name: value
            for name, value in self._fields.items()
            if value is not None or name not in _WITH_USAGE
        }
        body["object"] = "chat.completion"
        body["choices"] = [choice.whole(index) for index, choice in sorted(self._choices.items())]
        return body

    def _add_choice(self, choice: Json) -> None:
        index = choice.get("index", 0)
        if type(index) is not int:
            self._broken = True
            return
        known = self._choices.get(index)
        if known is None:
            known = self._choices[index] = _Choice()
        for name, value in choice.items():
            if name == "delta":
                for delta in self._objects(value):
                    self._add_delta(known, delta)
            elif name not in _NOT_FIELDS:
                _merge(known.fields, name, value, grow=False)

    def _add_delta(self, known: _Choice, delta: Json) -> None:
        for name, value in delta.items():
            if name != "tool_calls" or not value:
                _merge(known.message, name, value, grow=True)
                continue
            for call_delta in self._objects(value):
                call = known.call(call_delta)
                for inner, part in call_delta.items():
                    if inner != "index":
                        _merge(call, inner, part, grow=True)

    def _objects(self, values: object) -> list[Json]:
        """Return the objects of a list, or the one there is; only null may stand beside them."""
        listed = values if isinstance(values, list) else [values]
        objects = [value for value in listed if isinstance(value, dict)]
        if len(objects) + listed.count(None) != len(listed):
            self._broken = True
        return objects


def has_content(chunk: Json) -> bool:
    """Tell whether a chunk carries content, reasoning, a refusal or part of a tool call."""
    return _carries(chunk, _ANSWER + _REASONING)


def has_answer(chunk: Json) -> bool:
    """Tell the same without reasoning: whether a chunk carries part of the answer itself."""
    return _carries(chunk, _ANSWER)


def encode(body: Json) -> bytes:
    """Return compact JSON in ASCII, in which half a surrogate pair survives."""
    return _encode(body).encode()


def frames(body: Json) -> list[bytes]:
    """Return the payloads of the stream that replays a whole answer, without usage and [DONE].

    For each choice its role, reasoning, texts, tool calls one by one, and its end. What the
    body holds beside the usual fields rides on the first chunk.
    """
    head = _head(body)
    first = {
        name: value
        for name, value in body.items()
        if name not in head and name not in _WITH_USAGE and name != "choices"
    }
    payloads = []
    for choice in body["choices"]:
        for piece in _pieces(choice):
            payloads.append(encode(head | first | {"choices": [piece]}))
            first = {}
    return payloads


def usage_frame(body: Json) -> bytes | None:
    """Return the payload of the chunk that ends a stream with its usage, None without usage.

    The engine's metrics, if the body has them, ride on it as they do in vLLM's stream.
    """
    if body.get("usage") is None:
        return None
    told = {name: body[name] for name in _WITH_USAGE if body.get(name) is not None}
    return encode(_head(body) | {"choices": []} | told)


def _head(body: Json) -> Json:
    head: Json = {name: body[name] for name in _HEAD if name in body}
    head["object"] = "chat.completion.chunk"
    return head


def _pieces(choice: Json) -> list[Json]:
    """Return a whole choice as the choices of its chunks, token log-probabilities with the text."""
    deltas = _deltas(choice["message"])
    pieces = [{"index": choice["index"], "delta": delta, "finish_reason": None} for delta in deltas]
    end = {name: value for name, value in choice.items() if name != "message"}
    for piece in pieces:
        if "logprobs" in end and any(piece["delta"].get(name) for name in _ANSWER):
            piece["logprobs"] = end.pop("logprobs")
    pieces.append({"delta": {}, "finish_reason": None} | end)
    return pieces


def _deltas(message: Json) -> list[Json]:
    """Return a whole message as deltas: what opens it, each text, what else it has, the calls."""
    opening: Json = {}
    texts: Json = {}
    rest: Json = {}
    for name, value in message.items():
        if name == "content" and isinstance(value, str):
            opening[name] = ""
        if value in (None, "", []) or name in _KEEP_FIRST:
            opening[name] = value
        elif isinstance(value, str):
            texts[name] = value
        elif name != "tool_calls":
            rest[name] = value
    reasoning: Json = {name: texts.pop(name) for name in _REASONING if name in texts}
    calls = message.get("tool_calls") or ()
    return [
        opening,
        *([reasoning] if reasoning else []),
        *({name: text} for name, text in texts.items()),
        *([rest] if rest else []),
        *({"tool_calls": [{**call, "index": index}]} for index, call in enumerate(calls)),
    ]


def _carries(chunk: Json, names: tuple[str, ...]) -> bool:
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return False
    for choice in choices:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict):
            continue
        for name in names:
            if delta.get(name):
                return True
        calls = delta.get("tool_calls") or [delta.get("function_call")]
        if isinstance(calls, list) and any(map(_says_something, calls)):
            return True
    return False


def _says_something(call: object) -> bool:
    """Tell whether part of a tool call has a name, an id or arguments, not just its place."""
    return isinstance(call, dict) and any(
        any(value.values()) if isinstance(value, dict) else value
        for name, value in call.items()
        if name not in ("index", "type")
    )


def _merge(into: Json, name: str, new: Any, *, grow: bool) -> None:
    """Merge one field by the rules above; `grow` says that we are inside a delta."""
    old = into.get(name)
    if new is None:
        into.setdefault(name, None)
    elif isinstance(new, str) and grow:
        if name in _KEEP_FIRST:
            into[name] = old or new
        elif type(old) is _Text:
            old.append(new)
        else:
            into[name] = _Text([new])
    elif isinstance(new, dict):
        if not isinstance(old, dict):
            old = into[name] = {}
        for inner, value in new.items():
            _merge(old, inner, value, grow=grow)
    elif isinstance(new, list):
        if type(old) is list:
            old.extend(new)
        else:
            into[name] = list(new)
    else:
        into[name] = new


def _plain(value: Any) -> Any:
    """Copy what was merged, each text joined to one."""
    if type(value) is _Text:
        return "".join(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, list) else value
