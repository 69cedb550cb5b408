"""The names of metrics in a query: enough of PromQL's grammar for what we write ourselves."""

from __future__ import annotations

import re

_STRING = re.compile(r'"[^"]*"')
_LABELS = re.compile(r"\{[^}]*\}")
_GROUPING = re.compile(r"\b(by|on|without|ignoring)\s*\([^)]*\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_WORDS = {"or", "and", "unless", "bool", "offset"}


def metrics(query: str) -> set[str]:
    """Every name that is neither a function, a label nor a word of the language."""
    text = query
    for without in (_STRING, _LABELS, _RANGE, _GROUPING):
        text = without.sub(" ", text)
    found = set()
    for name in _NAME.finditer(text):
        follows = text[name.end() :].lstrip()
        number = name.start() > 0 and text[name.start() - 1].isdigit()
        if not follows.startswith("(") and name[0] not in _WORDS and not number:
            found.add(name[0])
    return found
