"""A page of docs/ as the tests read it: its tables by heading, and its code blocks."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def text(name: str) -> str:
    """The whole page."""
    return (DOCS / name).read_text()


def section(name: str, heading: str) -> str:
    """What stands under a heading, down to the next one."""
    found = re.search(
        rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text(name), re.MULTILINE | re.DOTALL
    )
    assert found, f"{name} has no heading {heading!r}"
    return found[1]


def table(name: str, heading: str) -> list[list[str]]:
    """The rows of the one table under a heading, without its head; back-quotes are left out."""
    lines = [line for line in section(name, heading).splitlines() if line.startswith("|")]
    assert len(lines) > 2, f"{name} has no table under {heading!r}"
    assert set(lines[1]) <= set("|- ")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert all(len(row) == len(rows[0]) and all(row) for row in rows)
    return [[cell.replace("`", "") for cell in row] for row in rows]
