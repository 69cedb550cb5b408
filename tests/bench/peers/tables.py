"""What the peers' run found, as Markdown tables: the very text of docs/performance.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import figures, report
from ..aims import Row

MARKS = ("<!-- bench-peers begins -->", "<!-- bench-peers ends -->")
RIVALS = ("vllm-router", "litellm")


def markdown(found: Mapping[str, Any]) -> str:
    """The machine, what is added, what is carried, what it takes, and the generators."""
    rows: Sequence[Row] = found["rows"]
    blocks = [report.about(found)]
    for part, make in (("paced", _paced), ("saturation", _saturation), ("memory", _taken)):
        own = [row for row in rows if row["part"] == part]
        if own:
            blocks += make(own)
    blocks += [f"Not available: {name} ({why})." for name, why in found["missing"].items()]
    return "\n\n".join(blocks)


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Add what each row's figure is of vllm-router's and LiteLLM's at as many streams."""
    named = {(row["part"], row["streams"], row["target"]): row for row in rows}
    found = []
    for row in rows:
        more = {}
        for rival in RIVALS:
            base = named.get((row["part"], row["streams"], rival), {})
            for figure in ("added_p50_ms", "added_p99_ms", "streams_a_s"):
                if figure in row:
                    of = base.get(figure)
                    # Noise may make a peer's added time negative: there is no ratio to that.
                    value = figures.ratio(row[figure], of) if of is not None and of > 0 else None
                    more[f"{figure}_of_{rival}"] = value
        found.append(row | more)
    return found


def _paced(rows: Sequence[Row]) -> list[str]:
    columns = ("n", "error_rate", "first_content_p50_ms", "added_p50_ms", "added_p99_ms")
    ratios = ("added_p50_ms_of_vllm-router", "added_p99_ms_of_vllm-router")
    return [
        "### Paced streams: 50 ms to first content, 16 chunks 10 ms apart",
        _table(rows, (*columns, *ratios, "cpu_ms_each")),
    ]


def _saturation(rows: Sequence[Row]) -> list[str]:
    ratios = ("streams_a_s_of_vllm-router", "streams_a_s_of_litellm")
    return [
        "### Saturation: 5 ms to first content, 16 chunks at once",
        _table(rows, ("n", "error_rate", "streams_a_s", *ratios, "to_end_p50_ms", "cpu_ms_each")),
    ]


def _taken(rows: Sequence[Row]) -> list[str]:
    columns = ("start_s", "rss_before_mib", "rss_most_mib", "pss_most_mib", "error_rate")
    return [
        "### Start (once, to the first answer) and memory while 64 paced streams are open",
        _table(rows, columns),
    ]


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    names = ("target", "streams", *columns)
    return report.table(names, [[report.cell(row.get(name)) for name in names] for row in rows])
