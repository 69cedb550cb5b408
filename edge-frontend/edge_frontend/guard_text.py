"""The texts of an answer as they stand on the wire: plain, or JSON written inside of a string.

In JSON (a tool call's arguments) a rule sees each string as it reads, escapes undone, and each
bare value by itself. What no rule touches keeps its spelling; a masked string stays a string, and
a masked number becomes one, so that what was JSON is JSON.
"""

from __future__ import annotations

import re
from typing import Protocol

from .guard_rules import Group
from .guard_scan import Note, Scanner, masked

_RUN = re.compile(r'[^"\\]+')
_BARE = re.compile(r'[^"{}\[\]:,]+')
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = frozenset("0123456789abcdefABCDEF")


class Text(Protocol):
    """One text that comes in pieces."""

    def feed(self, text: str) -> str:
        """Take more of it; answers what may leave now."""
        ...

    def flush(self) -> str:
        """What is left, now that no more comes."""
        ...


class Plain:
    """A text that reads as it is written."""

    __slots__ = ("_held", "_scanner")

    def __init__(self, group: Group, note: Note) -> None:
        self._scanner = Scanner(group, note)
        self._held = ""

    def feed(self, text: str) -> str:
        return self._take(text, ended=False)

    def flush(self) -> str:
        return self._take("", ended=True)

    def _take(self, text: str, *, ended: bool) -> str:
        held, at, out = self._held + text, 0, ""
        for length, replacement in self._scanner.feed(text, ended=ended):
            out += held[at : at + length] if replacement is None else replacement
            at += length
        self._held = held[at:]
        return out


class Json:
    """JSON in pieces; for anything else it says nothing about form, and masks all the same."""

    __slots__ = ("_bare", "_escape", "_group", "_note", "_scanner", "_spelled")

    def __init__(self, group: Group, note: Note) -> None:
        self._group, self._note = group, note
        self._scanner: Scanner | None = None  # of the string that is open
        self._spelled: list[str] = []  # how each character that it holds back was written
        self._escape = ""  # an escape whose end has not come
        self._bare = ""  # what stands outside of strings and may be part of a value

    def feed(self, text: str) -> str:
        out, at = "", 0
        while at < len(text):
            if self._scanner is None:
                piece, at = self._outside(text, at)
            else:
                piece, at = self._inside(self._scanner, text, at)
            out += piece
        return out

    def flush(self) -> str:
        if self._scanner is None:
            return self._end_bare()
        # A string that was cut off stays cut off.
        rest = self._escape
        return self._end_string(self._scanner) + rest

    def _outside(self, text: str, at: int) -> tuple[str, int]:
        if found := _BARE.match(text, at):
            self._bare += found.group()
            if not self._bare.isspace():
                return "", found.end()
            out, self._bare = self._bare, ""
            return out, found.end()
        out = self._end_bare() + text[at]
        if text[at] == '"':
            self._scanner = Scanner(self._group, self._note)
        return out, at + 1

    def _inside(self, scanner: Scanner, text: str, at: int) -> tuple[str, int]:
        if self._escape or text[at] == "\\":
            self._escape += text[at]
            read = _read_escape(self._escape)
            if read is None:
                return "", at + 1
            spelled, self._escape = self._escape, ""
            return self._string(scanner, read, [spelled]), at + 1
        if text[at] == '"':
            return self._end_string(scanner) + '"', at + 1
        found = _RUN.match(text, at)
        run = found.group() if found else ""
        return self._string(scanner, run, list(run)), at + len(run)

    def _string(
        self, scanner: Scanner, read: str, spelled: list[str], *, ended: bool = False
    ) -> str:
        held, at = self._spelled + spelled, 0
        out = list[str]()
        for length, replacement in scanner.feed(read, ended=ended):
            out += held[at : at + length] if replacement is None else [replacement]
            at += length
        self._spelled = held[at:]
        return "".join(out)

    def _end_string(self, scanner: Scanner) -> str:
        self._scanner, self._escape = None, ""
        return self._string(scanner, "", [], ended=True)

    def _end_bare(self) -> str:
        bare, self._bare = self._bare, ""
        value = bare.strip()
        if not value:
            return bare
        without = masked(value, self._group, self._note)
        return bare if without == value else bare.replace(value, f'"{without}"')


class Arguments:
    """A tool call's arguments: JSON if they begin as an object or a list, plain text if not."""

    __slots__ = ("_begun", "_group", "_note", "_text")

    def __init__(self, group: Group, note: Note) -> None:
        self._group, self._note = group, note
        self._begun = ""  # white space, before which nothing is known
        self._text: Text | None = None

    def feed(self, text: str) -> str:
        if self._text is None:
            text = self._begun = self._begun + text
            if not text.strip():
                return ""
            kind = Json if text.lstrip()[0] in "{[" else Plain
            self._text = kind(self._group, self._note)
        return self._text.feed(text)

    def flush(self) -> str:
        return self._text.flush() if self._text is not None else self._begun


def _read_escape(spelled: str) -> str | None:
    """What an escape stands for, None while it has no end; a wrong one stands for itself."""
    if len(spelled) == 1:
        return None
    if spelled[1] != "u":
        return _SHORT.get(spelled[1], spelled[1])
    if len(spelled) < 6 and all(sign in _HEX for sign in spelled[2:]):
        return None
    digits = spelled[2:]
    return chr(int(digits, 16)) if set(digits) <= _HEX else "\ufffd"
