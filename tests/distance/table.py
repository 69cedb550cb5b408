"""What the user waited for, as a table for a terminal or for docs/placement.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from distance.links import TOLD, Mode
from distance.run import FIRST_CONTENT_MS, Found
from nearfar.placement.recording import now
from nearfar.placement.spread import Spread
from nearfar.runs.surroundings import machine

BEGIN, END = "<!-- distance begins -->", "<!-- distance ends -->"
KINDS = tuple((a, c) for a in ("cached", "model's") for c in ("reused", "new"))
_HEAD = ("user", "placement", "ways", "connect", *(f"{a}, {c}" for a, c in KINDS))


def lines(found: Sequence[Found], mode: Mode) -> list[str]:
    """The whole text: what delayed, what is in the table, the table."""
    wrong = [f"{each.place.title}: {text}" for each in found for text in each.wrong]
    n = max((len(each.values(*kind)) for each in found for kind in KINDS), default=0)
    return [
        f"{TOLD[mode]}; {_machine()}; {now()[:19]}Z.",
        "",
        "First content in ms, from the question's sending, or from the connection's beginning",
        f"where it is new: median (95% interval of the median), n={n} at most a cell. The model",
        f"server is the tests' own: {FIRST_CONTENT_MS:g} ms to its first content. No TLS.",
        "",
        *table([_HEAD, *(_row(each) for each in found)]),
        *(
            ["", f"{len(wrong)} answers were not as asked and are left out: {wrong[0]}"]
            if wrong
            else []
        ),
    ]


def _row(found: Found) -> tuple[str, ...]:
    place = found.place
    connect = [
        value
        for answer in ("cached", "model's")
        for value in found.values(answer, "new", "connect_ms")
    ]
    return (
        f"{place.away_ms:g} ms",
        place.title,
        f"{place.user_ms:g} + {place.gpu_ms:g}",
        cell(connect),
        *(cell(found.values(*kind)) for kind in KINDS),
    )


def cell(values: Iterable[float]) -> str:
    """A median with its interval; the range that was seen where n carries none."""
    spread = Spread.of(values)
    if spread is None:
        return "not available"
    if spread.low is None or spread.high is None:
        return f"{spread.median:.1f} ({spread.least:.1f} to {spread.most:.1f} seen)"
    return f"{spread.median:.1f} ({spread.low:.1f}-{spread.high:.1f})"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, aligned so that it is one in a terminal too."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    head, *rest = rows
    rule = ["-" * width for width in widths]
    return [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in (head, rule, *rest)
    ]


def write_into(page: Path, text: str) -> None:
    """Put the text between the page's two marks, in place of what stands there.

    Raises:
        ValueError: when the page lacks a mark.
    """
    before, begun, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{page} lacks {BEGIN} or {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def _machine() -> str:
    found = machine()
    return (
        f"{found['processor']}, {found['cores']} cores, load {found['load_average_1min']:.1f}, "
        f"Python {found['python']}"
    )
