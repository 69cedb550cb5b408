"""Safe HTML out of text that nobody vouches for: labels, addresses, error codes, categories."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of HTML. Everything else is text and is escaped."""

    text: str

    def __str__(self) -> str:
        return self.text


Piece = Markup | str | None


def escaped(piece: Piece) -> str:
    """A piece as HTML."""
    return "" if piece is None else str(piece) if isinstance(piece, Markup) else html.escape(piece)


def tag(name: str, *pieces: Piece, **attributes: str) -> Markup:
    """An element; `class_` is the attribute class."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{told}>{''.join(escaped(piece) for piece in pieces)}</{name}>")


def joined(pieces: Iterable[Piece]) -> Markup:
    """Several pieces after each other."""
    return Markup("".join(escaped(piece) for piece in pieces))


def table(heads: Sequence[Piece], rows: Iterable[Sequence[Piece]], caption: str = "") -> Markup:
    """A table whose first column names the row; it scrolls by itself where it is too wide."""
    head = tag("tr", *(tag("th", each, scope="col") for each in heads))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    titled = [tag("caption", caption)] if caption else []
    inner = tag("table", *titled, tag("thead", head), tag("tbody", *body))
    return tag(
        "div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption or "table"
    )
