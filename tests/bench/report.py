"""What a run found, as Markdown tables: the very text of docs/performance.md."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearfar.runs import surroundings

from .aims import AIMS, Row

BEGIN, END = "<!-- bench-edge begins -->", "<!-- bench-edge ends -->"

# The title and the columns of each part, beside target and streams.
_PARTS = {
    "memory": (
        "Memory while 64 paced streams are open",
        ("pss_most_mib", "rss_before_mib", "rss_most_mib"),
    ),
    "paced": (
        "Paced streams: 50 ms to first content, 16 chunks 10 ms apart",
        ("first_content_p50_ms", "added_p50_ms", "added_p99_ms", "cpu_ms_each", "x_cache"),
    ),
    "saturation": (
        "Saturation: 5 ms to first content, 16 chunks at once",
        ("streams_a_s", "ratio_to_router", "to_end_p50_ms", "cpu_ms_each", "x_cache"),
    ),
    "cache": (
        "Cache hits",
        ("requests_a_s", "ratio_to_hello", "to_end_p50_ms", "cpu_ms_each", "x_cache"),
    ),
    "fresh": (
        "A new instance for every request, and cache hits",
        ("first_byte_p50_ms", "added_p50_ms", "first_byte_p99_ms", "cpu_ms_each", "x_cache"),
    ),
}


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was when the run began."""
    found = surroundings.machine()
    found["load_average_1min"] = round(found["load_average_1min"], 1)
    return found | {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def markdown(report: Mapping[str, Any]) -> str:
    """The machine, the aims and a table for each part that was measured."""
    rows: Sequence[Row] = report["rows"]
    blocks = [about(report)]
    if aims := [cells for cells in (aim.cells(rows) for aim in AIMS) if cells is not None]:
        blocks += ["### Aims", table(("aim", "measured", "reached"), aims)]
    for part, (title, columns) in _PARTS.items():
        own = [row for row in rows if row["part"] == part]
        names = ("target", "streams", "n", "error_rate", *columns)
        if own:
            lines = [tuple(cell(row.get(name)) for name in names) for row in own]
            blocks += [f"### {title}", table(names, lines)]
    blocks += [f"Not available: {name} ({why})." for name, why in report["missing"].items()]
    return "\n\n".join(blocks)


def write_into(page: Path, text: str, marks: tuple[str, str] = (BEGIN, END)) -> None:
    """Put the text between the page's two marks, in place of what stands there.

    Raises:
        ValueError: when the page lacks a mark.
    """
    begin, end = marks
    before, begun, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{page} lacks {begin} or {end}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def about(report: Mapping[str, Any]) -> str:
    """The machine, and how much was measured."""
    found, effort = report["machine"], report["effort"]
    return (
        f"{found['processor']}, {found['cores']} cores, {found['memory_gib']} GiB, "
        f"{found['system']}; Python {found['python']}; begun {found['at']} at a load average of "
        f"{found['load_average_1min']}; {effort['rounds']} rounds, {effort['seconds']:g} s of each "
        f"target in a round where a rate is measured."
    )


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; its first column is text, the others are figures."""
    widths = [max(len(line[i]) for line in (names, *rows)) for i in range(len(names))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = (names, rule, *rows)
    return "\n".join(f"| {' | '.join(_aligned(line, widths))} |" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]


def cell(value: Any) -> str:
    """A figure, or a dash for what was not observed."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
