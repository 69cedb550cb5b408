"""Guardrails on an answer: chunks of a stream, or one body, as they may reach the client.

Every text of every choice is one text however it was cut: content, reasoning, refusals, arguments
of tool calls, and texts we do not know. Names, and what stands in lists of things without an
index, come whole and are looked at whole. What is held back leaves with the choice's end, before
its finish_reason. Token log-probabilities and token ids spell the answer a second time, so they
are left out where rules may change it. Usage stays the engine's own: the tokens were generated.

    guard = OutputGuard(rules, json_content=asks_for_json(fields))
    for chunk in chunks:
        forward(*guard.feed(chunk))  # and keep these for the cache, not the originals
    forward(*guard.end())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .guard_rules import Group, Rules
from .guard_text import Arguments, Json, Plain, Text

Chunk: TypeAlias = dict[str, Any]
# The way from a choice's index to a text: names and indexes; None where things are not told apart.
Path: TypeAlias = tuple[int | str | None, ...]
_Change: TypeAlias = Callable[[Path, str], str]

_NOT_TEXT = frozenset({"role", "id", "type"})
_SPELLS_IT = frozenset({"logprobs", "token_ids"})
_HEAD = ("id", "object", "created", "model", "system_fingerprint")
_JSON_FORMATS = ("json_object", "json_schema")
_JSON_FIELDS = ("guided_json", "structured_outputs")


class OutputGuard:
    """Guards one answer; `fired` names the rules that matched, for the record."""

    __slots__ = ("_head", "_json_content", "_rules", "_texts", "_watched", "fired")

    def __init__(self, rules: Rules, *, json_content: bool = False) -> None:
        self._rules, self._json_content = rules, json_content
        self._texts: dict[Path, Text] = {}
        self._watched: dict[Path, Text] = {}
        self._head: Chunk = {}
        self.fired: set[str] = set()

    def text(self, path: Path, text: str) -> str:
        """Take more of one text, such as (0, "content"); answers what of it may leave now.

        Raises:
            ContentPolicyViolation: when a rule that blocks matched.
        """
        if None in path or path[-1] == "name":
            return self._at_once(path, text)
        if self._rules.output_watch.rules:
            self._open(self._watched, path, self._rules.output_watch).feed(text)
        if not self._rules.output.rules:
            return text
        return self._open(self._texts, path, self._rules.output).feed(text)

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """The chunks to forward now, in order.

        Raises:
            ContentPolicyViolation: as `text` does; what was answered before may have left.
        """
        self._head = {name: chunk[name] for name in _HEAD if name in chunk}
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return [chunk]
        passed, before = list[Any](), list[Chunk]()
        for choice in choices:
            guarded = self._choice(choice)
            if isinstance(choice, dict) and choice.get("finish_reason"):
                guarded = self._finish(guarded, before)
            passed.append(guarded)
        if chunk.get("usage") or chunk.get("metrics") or not all(map(_is_spent, choices, passed)):
            before.append({**chunk, "choices": passed})
        return before

    def end(self) -> list[Chunk]:
        """What is left of choices that had no end of their own; call it only after a clean end."""
        indexes = dict.fromkeys(path[0] for path in (*self._texts, *self._watched))
        return [rest for index in indexes for rest in self._flush(index)]

    def body(self, body: Chunk) -> Chunk:
        """A whole chat.completion as it may reach the client.

        Raises:
            ContentPolicyViolation: when a rule that blocks matched.
        """
        choices = list[Any]()
        for choice in body.get("choices") or ():
            if isinstance(choice, dict):
                message = _changed(choice.get("message"), (0,), self._at_once)
                choice = {**self._without_spelling(choice), "message": message}
            choices.append(choice)
        return {**body, "choices": choices}

    def _choice(self, choice: Any) -> Any:
        if not isinstance(choice, dict):
            return choice
        delta = _changed(choice.get("delta"), (choice.get("index", 0),), self.text)
        return {**self._without_spelling(choice), "delta": delta}

    def _finish(self, choice: Chunk, before: list[Chunk]) -> Chunk:
        """Add what is left of a choice to the chunks before; answers the choice with its end."""
        index, delta = choice.get("index", 0), choice["delta"]
        rests = self._flush(index)
        if not rests:
            return choice
        if isinstance(delta, dict) and any(delta.values()):
            before.append(self._chunk(index, delta))
        before += rests
        return {**choice, "delta": {}}

    def _without_spelling(self, choice: Chunk) -> Chunk:
        if not self._rules.output.rules or _SPELLS_IT.isdisjoint(choice):
            return choice
        return {name: None if name in _SPELLS_IT else value for name, value in choice.items()}

    def _at_once(self, path: Path, text: str) -> str:
        watch = self._kind(path)(self._rules.output_watch, self.fired.add)
        watch.feed(text)
        watch.flush()
        whole = self._kind(path)(self._rules.output, self.fired.add)
        return whole.feed(text) + whole.flush()

    def _flush(self, index: object) -> list[Chunk]:
        """The rests of one choice's texts, a chunk for each; its texts begin anew."""
        for path in [path for path in self._watched if path[0] == index]:
            self._watched.pop(path).flush()
        rests = list[Chunk]()
        for path in [path for path in self._texts if path[0] == index]:
            if rest := self._texts.pop(path).flush():
                rests.append(self._chunk(index, _at(path[1:], rest)))
        return rests

    def _chunk(self, index: object, delta: Chunk) -> Chunk:
        choice = {"index": index, "delta": delta, "finish_reason": None}
        return {**self._head, "choices": [choice]}

    def _open(self, texts: dict[Path, Text], path: Path, group: Group) -> Text:
        text = texts.get(path)
        if text is None:
            text = texts[path] = self._kind(path)(group, self.fired.add)
        return text

    def _kind(self, path: Path) -> Callable[[Group, Callable[[str], None]], Text]:
        if path[-1] == "arguments":
            return Arguments
        return Json if self._json_content and path[1:] == ("content",) else Plain


def asks_for_json(fields: Mapping[str, Any]) -> bool:
    """Whether a request asks for an answer that is JSON."""
    form = fields.get("response_format")
    kind = form.get("type") if isinstance(form, dict) else None
    return kind in _JSON_FORMATS or any(fields.get(name) for name in _JSON_FIELDS)


def _changed(value: Any, path: Path, change: _Change) -> Any:
    """The value with every text of it changed, but for those that name a kind."""
    if isinstance(value, str):
        return change(path, value)
    if isinstance(value, dict):
        return {
            name: inner if name in _NOT_TEXT else _changed(inner, (*path, name), change)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_changed(inner, (*path, _index(inner)), change) for inner in value]
    return value


def _index(inner: Any) -> int | None:
    """Which entry of a list this is, as a tool call says by its index."""
    index = inner.get("index") if isinstance(inner, dict) else None
    return index if type(index) is int else None


def _is_spent(given: Any, passed: Any) -> bool:
    """Whether a choice had nothing but texts, and all of them are held back."""
    if not isinstance(given, dict) or given.get("finish_reason"):
        return False
    delta = given.get("delta")
    if not isinstance(delta, dict) or not any(delta.values()) or any(passed["delta"].values()):
        return False
    return all(isinstance(value, str | None) for value in delta.values())


def _at(path: Path, text: str) -> Chunk:
    """A delta that holds one text at its place."""
    inner: Any = text
    for step in reversed(path):
        inner = [{"index": step, **inner}] if isinstance(step, int) else {step: inner}
    delta: Chunk = inner
    return delta
