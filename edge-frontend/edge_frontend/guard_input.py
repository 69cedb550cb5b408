"""Guardrails on a request: every text that would be forwarded, whatever its shape.

Texts and names at any depth are looked at: messages, parts, tool calls and their results, tools,
schemas, fields we do not know; only `model`, which the routing table decides, is not. A text that
is JSON is read as JSON. Text parts of one list are looked at together too, since a chat template
may join them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import untrusted
from .errors import ContentPolicyViolation
from .guard_rules import Group, Rules
from .guard_scan import Scanner, masked
from .guard_text import Json

LARGEST = "largest-input"
SYSTEM = "system-prompt"
_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Checked:
    """The fields as they may go on, and the names of the rules that masked or flagged something."""

    fields: dict[str, Any]
    fired: tuple[str, ...]


def check(fields: dict[str, Any], rules: Rules, size_bytes: int | None = None) -> Checked:
    """Look at a request whose messages have the shape of messages, and mask what has to be.

    `size_bytes` is that of the JSON that the fields were read from. Its texts are no longer in
    UTF-8, so where no rule looks at a request a small one need not be walked through.

    Raises:
        ContentPolicyViolation: when a rule blocks it; the text names the rule alone.
    """
    messages = fields["messages"]
    if len(messages) > rules.most_messages:
        raise ContentPolicyViolation.of(LARGEST)
    if rules.system_policy == "refuse" and any(message["role"] in _ROLES for message in messages):
        raise ContentPolicyViolation.of(SYSTEM)
    if not rules.guards_input and size_bytes is not None and size_bytes <= rules.most_bytes:
        return Checked(fields, ())
    look = _Look(rules)
    passed = {name: fields[name] if name == "model" else look.at(fields[name]) for name in fields}
    return Checked(passed, tuple(sorted(look.fired)))


def under(messages: list[Any], operator: str, heading: str = "") -> list[Any]:
    """The messages under the operator's system text, which stays the first and the only one on top.

    The client's own leading system messages follow in the same message, so that a chat
    template that knows one system message, or takes the first, takes the operator's.
    """
    if not operator:
        return messages
    leading = 0
    while leading < len(messages) and messages[leading]["role"] in _ROLES:
        leading += 1
    texts = [_text_of(message.get("content")) for message in messages[:leading]]
    own = [text for text in texts if text]
    above = [operator, *([heading] if heading and own else []), *own]
    return [{"role": "system", "content": "\n\n".join(above)}, *messages[leading:]]


class _Look:
    """One walk through a request."""

    def __init__(self, rules: Rules) -> None:
        self._rules, self.fired = rules, set[str]()
        self._left_bytes = rules.most_bytes

    def at(self, value: Any) -> Any:
        """The value with every text of it masked."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.at(inner) for inner in self._joined(value)]
        return value

    def _object(self, given: dict[str, Any]) -> dict[str, Any]:
        passed: dict[str, Any] = {}
        for name, inner in given.items():
            name = self._text(name)
            while name in passed:  # two names that a mask made one
                name += "_"
            passed[name] = self.at(inner)
        return passed

    def _text(self, text: str) -> str:
        self._left_bytes -= len(text.encode("utf-8", "surrogatepass"))
        if self._left_bytes < 0:
            raise ContentPolicyViolation.of(LARGEST)
        is_json = _is_json(text)
        for group in (self._rules.input_watch, self._rules.input):
            if not is_json and not group.needed.search(text):
                continue
            if is_json:
                read = Json(group, self.fired.add)
                passed = read.feed(text) + read.flush()
            else:
                passed = masked(text, group, self.fired.add)
            if group is self._rules.input:
                text = passed
        return text

    def _joined(self, items: list[Any]) -> Iterable[Any]:
        """The items with what runs over the seams of their texts masked."""
        texts = [
            item["text"]
            for item in items
            if isinstance(item, dict) and isinstance(item.get("text"), str)
        ]
        if len(texts) < 2:
            return items
        whole = "".join(texts)
        masked(whole, self._rules.input_watch, self.fired.add)
        cut = iter(_cut(whole, [len(text) for text in texts], self._rules.input, self.fired))
        return [
            {**item, "text": next(cut)}
            if isinstance(item, dict) and isinstance(item.get("text"), str)
            else item
            for item in items
        ]


def _cut(whole: str, sizes: list[int], group: Group, fired: set[str]) -> list[str]:
    """The whole text masked, and cut where its parts began; a mask stands where its match began."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    parts, at = [""] * len(sizes), 0
    number = 0
    for length, replacement in Scanner(group, fired.add).feed(whole, ended=True):
        end = at + length
        while number < len(sizes) - 1 and ends[number] <= at:
            number += 1
        if replacement is not None:
            parts[number] += replacement
        while replacement is None and at < end:
            step = min(end, ends[number])
            parts[number] += whole[at:step]
            at = step
            if at == ends[number] and number < len(sizes) - 1:
                number += 1
        at = end
    return parts


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list."""
    if text[:1] not in "{[ \t\r\n" or not text.strip().startswith(("{", "[")):
        return False
    if untrusted.nests_too_deep(text.encode(errors="surrogatepass")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _text_of(content: Any) -> str:
    """The text of a message, its text parts one under another."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
