"""What a run found, as Markdown tables: the very text of docs/performance.md."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average_1min": round(os.getloadavg()[0], 1),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def markdown(report: Mapping[str, Any]) -> str:
    """The machine, the aims and a table for each part that was measured."""
    rows: Sequence[Row] = report["rows"]
    blocks = [_about(report)]
    if aims := [cells for cells in (aim.cells(rows) for aim in AIMS) if cells is not None]:
        blocks += ["### Aims", _table(("aim", "measured", "reached"), aims)]
    for part, (title, columns) in _PARTS.items():
        own = [row for row in rows if row["part"] == part]
        names = ("target", "streams", "n", "error_rate", *columns)
        if own:
            lines = [tuple(_cell(row.get(name)) for name in names) for row in own]
            blocks += [f"### {title}", _table(names, lines)]
    blocks += [f"Not available: {name} ({why})." for name, why in report["missing"].items()]
    return "\n\n".join(blocks)


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


def _about(report: Mapping[str, Any]) -> str:
    found, effort = report["machine"], report["effort"]
    return (
        f"{found['processor']}, {found['cores']} cores, {found['memory_gib']} GiB, "
        f"{found['system']}; Python {found['python']}; begun {found['at']} at a load average of "
        f"{found['load_average_1min']}; {effort['rounds']} rounds, {effort['seconds']:g} s of each "
        f"target in a round where a rate is measured."
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in (names, *rows)) for i in range(len(names))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = (names, rule, *rows)
    return "\n".join(f"| {' | '.join(_aligned(line, widths))} |" for line in lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = line
    return [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _processor() -> str:
    """The model's name (proc_cpuinfo(5)), or the architecture where there is none."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
