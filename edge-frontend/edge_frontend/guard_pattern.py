"""Patterns of the guardrails: regular expressions that also know what may still become a match.

A stream may let a text go only when it can no longer be the beginning of a match. So beside each
pattern P stands a second one, V, made from it: V matches from some place to the end of a text
exactly when that rest may be the beginning of something that P matches, or all of it. For a
sequence V(ab) is V(a) or a V(b), for one character it is the end of the text, for X{m,n} it is up
to n-1 of X and then V(X). What an assertion looks at may lie beyond the end, so there it counts as
open.

The language is Python's, less what has no bound or looks too far: no `*`, `+` and `{m,}`, no `^`
and `$`, no captures, no back references; an assertion looks at one character. The longest match
follows from the pattern itself, so nobody has to declare it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 20_000  # an armoured RSA key of 16,384 bits has 12,700
_END = r"\Z"
_QUANTIFIER = re.compile(r"\?|\{(\d{1,5})\}|\{(\d{0,5}),(\d{1,5})\}")
_UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ASSERTIONS = ("(?=", "(?!", "(?<=", "(?<!")
_ESCAPES = frozenset("dDwWsSnrtfv")
_EDGES = frozenset("bB")


class BadPattern(ValueError):
    """A pattern outside of the language; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """P, V, V less the empty rest, and the fewest and most characters of a match."""

    source: str
    viable: str
    begun: str
    least: int
    most: int
    is_one: bool = False  # one character, a class or a literal


def parse(source: str) -> Pattern:
    """Read a pattern.

    Raises:
        BadPattern: when it is outside of the language, can match nothing, or matches too much.
    """
    reader = _Reader(source)
    pattern = reader.alternatives()
    if reader.at < len(source):
        raise reader.wrong("an unopened group ends")
    if pattern.least < 1:
        raise BadPattern("the pattern matches the empty text")
    if pattern.most > MAX_CHARS:
        raise BadPattern(f"the pattern may match {pattern.most} characters, more than {MAX_CHARS}")
    try:
        re.compile(pattern.source)
    except re.error as error:
        raise BadPattern(str(error)) from error
    return pattern


class _Reader:
    """Reads one pattern from left to right; every node keeps its own source."""

    def __init__(self, source: str) -> None:
        self._source, self.at = source, 0

    def wrong(self, what: str) -> BadPattern:
        return BadPattern(f"{what} at character {self.at + 1} of the pattern")

    def alternatives(self) -> Pattern:
        ways = [self._sequence()]
        while self._take("|"):
            ways.append(self._sequence())
        if len(ways) == 1:
            return ways[0]
        return Pattern(
            "|".join(way.source for way in ways),
            "|".join(way.viable for way in ways),
            "|".join(way.begun for way in ways if way.begun),
            min(way.least for way in ways),
            max(way.most for way in ways),
        )

    def _sequence(self) -> Pattern:
        parts = list[Pattern]()
        while self.at < len(self._source) and self._source[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        viable, begun = _END, ""
        for part in reversed(parts):
            if part.most == 0:
                begun = part.source + (begun or f"(?:{viable})")
            else:
                goes_on = f"{part.source}(?:{viable})"
                begun = f"(?:{part.begun}|{goes_on})" if part.begun else goes_on
            viable = f"(?:{part.viable}|{part.source}(?:{viable}))"
        return Pattern(
            "".join(part.source for part in parts),
            viable,
            begun,
            sum(part.least for part in parts),
            sum(part.most for part in parts),
        )

    def _atom(self) -> Pattern:
        for opening in _ASSERTIONS:
            if self._take(opening):
                return self._assertion(opening)
        if self._take("(?:"):
            inner = self.alternatives()
            if not self._take(")"):
                raise self.wrong("a group has no end")
            source, begun = f"(?:{inner.source})", inner.begun and f"(?:{inner.begun})"
            return Pattern(source, inner.viable, begun, inner.least, inner.most)
        return self._character()

    def _assertion(self, opening: str) -> Pattern:
        inner = self._character()
        if not inner.is_one or not self._take(")"):
            raise self.wrong("an assertion looks at one character")
        return Pattern(f"{opening}{inner.source})", _END, "", 0, 0)

    def _character(self) -> Pattern:
        source = self._source[self.at : self.at + 1]
        if source == "[":
            found = _CLASS.match(self._source, self.at)
            if found is None:
                raise self.wrong("a class has no end")
            source = found.group()
        elif source == "\\":
            source = self._source[self.at : self.at + 2]
            if source[1:] in _EDGES:
                self.at += 2
                return Pattern(source, _END, "", 0, 0)
            if source[1:] not in _ESCAPES and (not source[1:] or source[1:].isalnum()):
                raise self.wrong("an escape is not known")
        elif not source or source in "^$(*+?{":
            raise self.wrong("a character is missing, or one without a backslash is not allowed")
        self.at += len(source)
        return Pattern(source, _END, "", 1, 1, is_one=True)

    def _repeated(self, part: Pattern) -> Pattern:
        if _UNBOUNDED.match(self._source, self.at):
            raise self.wrong("a repetition has no bound")
        found = _QUANTIFIER.match(self._source, self.at)
        if found is None:
            return part
        if part.most == 0:
            raise self.wrong("an assertion is repeated")
        exact, low, high = found.groups()
        if found.group() == "?":
            least, most = 0, 1
        else:
            least, most = int(exact or low or 0), int(exact or high)
        if most < max(1, least):
            raise self.wrong("a repetition has its bounds in the wrong order")
        self.at = found.end()
        quantifier = found.group() + ("?" if self._take("?") else "")
        viable, begun = (part.viable, part.begun) if most == 1 else 2 * (_some(part, most),)
        source = part.source + quantifier
        return Pattern(source, viable, begun, part.least * least, part.most * most)

    def _take(self, text: str) -> bool:
        if not self._source.startswith(text, self.at):
            return False
        self.at += len(text)
        return True


def _some(part: Pattern, most: int) -> str:
    """What may still become up to `most` of a part, two at the least."""
    # One character after another never has to be given back: what follows is the end.
    keep = "+" if part.is_one else ""
    return f"(?:{part.source}){{0,{most - 1}}}{keep}(?:{part.viable})"
