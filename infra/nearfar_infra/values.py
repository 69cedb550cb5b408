"""The configuration's texts as typed values, each key with what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from nearfar_infra.fields import FIELDS, Field, Kind, Value

_KINDS: dict[Kind, str] = {
    "string": "must be a text",
    "integer": "must be a whole number",
    "boolean": "must be true or false",
    "array": "must be a list of texts",
}


@dataclass(frozen=True, slots=True)
class Values:
    """Every key's value. A key that `problems` names has none; reading it is a fault of ours."""

    found: Mapping[str, Value | None] = field(repr=False)
    problems: Mapping[str, str]

    def sound(self, *keys: str) -> bool:
        """Whether all of these keys have a value that may be looked at."""
        return not any(key in self.problems for key in keys)

    def text(self, key: str) -> str:
        return cast("str", self.found[key])

    def maybe(self, key: str) -> str | None:
        return cast("str | None", self.found[key])

    def number(self, key: str) -> int:
        return cast("int", self.found[key])

    def maybe_number(self, key: str) -> int | None:
        return cast("int | None", self.found[key])

    def flag(self, key: str) -> bool:
        return cast("bool", self.found[key])

    def listed(self, key: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.found[key])


def parse(raw: Mapping[str, str]) -> Values:
    """Read every key of FIELDS; an empty text counts as not set, an unknown key is a problem."""
    problems = {key: "is not a setting" for key in raw if key not in FIELDS}
    found: dict[str, Value | None] = {}
    for key, entry in FIELDS.items():
        text = raw.get(key)
        if text is None or text == "":
            found[key] = entry.default
            if entry.required:
                problems[key] = "must be set"
            continue
        found[key] = _read(entry, text, problems)
    return Values(found, problems)


def _read(entry: Field, text: str, problems: dict[str, str]) -> Value | None:
    try:
        value = _PARSERS[entry.kind](text)
        return None if entry.unset is not None and value == entry.unset else value
    except (ValueError, KeyError):
        problems[entry.key] = _KINDS[entry.kind]
        return None


def _integer(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise ValueError
    return int(text)


def _array(text: str) -> tuple[str, ...]:
    items = json.loads(text) if text.lstrip().startswith("[") else [text]
    if not all(isinstance(item, str) and item for item in items):
        raise ValueError
    return tuple(items)


_PARSERS: dict[Kind, Callable[[str], Value]] = {
    "string": str,
    "integer": _integer,
    "boolean": {"true": True, "false": False}.__getitem__,
    "array": _array,
}
