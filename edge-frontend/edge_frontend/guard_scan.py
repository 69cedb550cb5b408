"""Masking of one text that comes in pieces: the same result wherever it was cut.

A match is masked only when no further text can change it, and a text leaves only when it can no
longer begin a match (guard_pattern says what can). What matches of several rules cover together
becomes one mask, that of the match which begins first, of the rules in their order.
"""

from __future__ import annotations

from collections.abc import Callable

from .errors import ContentPolicyViolation
from .guard_rules import Group, Rule

# How many characters of the text, and what stands for them: None is they themselves.
Piece = tuple[int, str | None]
Note = Callable[[str], None]


class Scanner:
    """One text on its way; `note` is told the name of every rule that matched."""

    __slots__ = ("_covered", "_ends", "_group", "_note", "_start", "_text")

    def __init__(self, group: Group, note: Note) -> None:
        self._group, self._note = group, note
        self._text = ""  # what is undecided, and the character before it
        self._start = 0  # where the undecided begins
        self._covered = 0  # up to where a mask that has left stands for the text
        self._ends: dict[str, int] = {}  # where a rule's next match may begin, if not at `_start`

    @property
    def held(self) -> int:
        """How many characters are held back."""
        return len(self._text) - self._start

    def feed(self, text: str, *, ended: bool = False) -> list[Piece]:
        """Take more of the text; answers what of it is decided, in order.

        Raises:
            ContentPolicyViolation: when a rule that blocks matched; nothing of the match has left.
        """
        text = self._text = self._text + text
        start = self._start
        if ended:
            frontier = len(text)
        else:
            found = self._group.viable.search(text, start)
            frontier = found.start() if found else len(text)
        if frontier == start:
            return []
        spans = self._spans(frontier) if self._group.needed.search(text) else []
        pieces = self._pieces(spans, frontier) if spans or self._covered > start else None
        self._forget(frontier)
        return pieces if pieces is not None else [(frontier - start, None)]

    def _spans(self, frontier: int) -> list[tuple[int, int, Rule]]:
        """The matches that begin before the frontier, which is where they are decided."""
        spans = list[tuple[int, int, Rule]]()
        for rule in self._group.rules:
            if not rule.may_be_in(self._text):
                continue
            end = self._ends.get(rule.name, self._start)
            while (span := rule.find(self._text, end, frontier)) is not None:
                if rule.action == "block":
                    self._note(rule.name)
                    raise ContentPolicyViolation.of(rule.name)
                spans.append((*span, rule))
                end = self._ends[rule.name] = span[1]
        spans.sort(key=lambda span: span[0])
        return spans

    def _pieces(self, spans: list[tuple[int, int, Rule]], frontier: int) -> list[Piece]:
        pieces = list[Piece]()
        at, covered = self._start, self._covered
        for start, end, rule in spans:
            self._note(rule.name)
            if start >= covered:
                at = _step(pieces, at, covered, "")
                at = _step(pieces, at, start, None)
                pieces.append((0, rule.mask))
            covered = max(covered, end)
        at = _step(pieces, at, min(covered, frontier), "")
        _step(pieces, at, frontier, None)
        self._covered = covered
        return pieces

    def _forget(self, frontier: int) -> None:
        cut = max(frontier - 1, 0)
        self._text, self._start = self._text[cut:], frontier - cut
        self._covered -= cut
        if self._ends:
            moved = {name: end - cut for name, end in self._ends.items()}
            self._ends = {name: end for name, end in moved.items() if end > self._start}


def _step(pieces: list[Piece], at: int, to: int, replacement: str | None) -> int:
    """Go on to a place further on, if it is one."""
    if to <= at:
        return at
    pieces.append((to - at, replacement))
    return to


def masked(text: str, group: Group, note: Note) -> str:
    """A whole text at once.

    Raises:
        ContentPolicyViolation: when a rule that blocks matched.
    """
    out, at = list[str](), 0
    for length, replacement in Scanner(group, note).feed(text, ended=True):
        out.append(text[at : at + length] if replacement is None else replacement)
        at += length
    return "".join(out)
