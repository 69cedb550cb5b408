"""A run's summary as text: a head, a table a lane, what failed, what to mind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table

from nearfar.figures.percentiles import SHARES, Figure, name_of
from nearfar.figures.summary import LATE_MS, Summary
from nearfar.runs import Header, Load, Run

NOT_CARRIED = "-"
TITLE_CHARS = 28
# What the tables need; a narrower terminal wraps them.
WIDTH = 110
LANES = {
    "client": "client lane (own clock)",
    "edge": "edge lane (own clock)",
    "engine": "engine lane (own clock)",
}


def text(summary: Summary, width: int = WIDTH) -> str:
    """Everything that is printed of a run."""
    parts = [head(summary.run), outcomes(summary)]
    for lane, title in LANES.items():
        rows = [row for row in summary.rows if row.kind.lane == lane and row.figure.n]
        if rows:
            named = [(r.kind.title, r.kind.unit, r.figure) for r in rows]
            parts.append(_drawn(_table(title, named, summary.error_rate), width))
    if len(summary.classes) > 1:
        named = [(c.name, "ms", c.first_content_ms) for c in summary.classes]
        parts.append(_drawn(_table("first content by class", named, summary.error_rate), width))
    parts += ["\n".join(remarks(summary))]
    return "\n\n".join(part for part in parts if part)


def head(run: Run) -> str:
    """What was measured, and how."""
    header = run.header
    lines = {
        "run": f"{header.run}{f' ({header.label})' if header.label else ''}, {header.started_at}",
        "target": f"{header.target.url}, model {header.target.model}",
        "placement": header.placement or "",
        "edge": _edge(header),
        "load": load(header.load),
        "workload": _workload(header),
        "cache": header.cache,
        "clock": f"{header.clock.source}, resolution {header.clock.resolution_s:g} s",
        "machine": _machine(header),
    }
    return "\n".join(f"{name:<10}{value}" for name, value in lines.items() if value)


def load(found: Load) -> str:
    """`open loop, poisson at 5/s, 200 requests, seed 0`."""
    parts = [f"open loop, {found.process}" if found.is_open else "closed loop"]
    if found.rate_per_s is not None:
        parts[0] += f" at {found.rate_per_s:g}/s"
    if found.concurrency is not None:
        parts.append(f"{found.concurrency} at once")
    if found.requests is not None:
        parts.append(f"{found.requests} requests")
    if found.duration_s is not None:
        parts.append(f"{found.duration_s:g} s")
    return ", ".join([*parts, f"seed {found.seed}"])


def outcomes(summary: Summary) -> str:
    """How many answered, what failed, how much a second, and the goodput."""
    run = summary.run
    good, measured = len(run.good), len(run.measured)
    warm_up = len(run.samples) - measured
    told = f"{measured} measured, {good} good, errors {percent(summary.error_rate)}"
    lines = [f"requests  {told}; {warm_up} of the warm-up apart"]
    lines += [f"failed    {count} × {name}" for name, count in summary.failures.items()]
    if summary.window_s and good:
        output = sum(sample.output_tokens or 0 for sample in run.good)
        tokens = f", {summary.per_s(output):.1f} output tokens/s" if output else ""
        lines.append(
            f"rate      {summary.per_s(good):.2f} good answers/s{tokens}, "
            f"over {summary.window_s:.1f} s"
        )
    if summary.goodput is not None:
        lines.append(f"goodput   {_goodput(summary)}")
    return "\n".join(lines)


def remarks(summary: Summary) -> Iterator[str]:
    """What a reader has to mind."""
    run = summary.run
    if run.end is None:
        yield "the file was cut off: the figures are of what it holds"
    elif run.end.reason != "done":
        yield f"the run was {run.end.reason}: the figures are of what was measured until then"
    late = summary.late
    if late is not None and late.n:
        high = late.at(0.99) if late.at(0.99) is not None else late.most
        if high is not None and high > LATE_MS:
            yield (
                f"the generator was late by up to {high:.1f} ms (p99, or the most): figures from "
                "the schedule hold that, figures from sending do not"
            )
    if run.good and not any(sample.usage for sample in run.good):
        yield "no usage came: TPOT and tokens are not available; a chunk is not a token"
    if run.good and not any(sample.record for sample in run.good):
        yield "no record came: the edge's and the engine's lanes are not available"
    hits = sum(sample.x_cache == "hit" for sample in run.good)
    if hits and run.header.cache in ("cold", "bypass"):
        yield f"{hits} answers came from the cache although it was to be {run.header.cache}"
    if any(row.figure.n and None in row.figure.percentiles.values() for row in summary.rows):
        yield f"{NOT_CARRIED}: too few samples for that percentile"


def percent(share: float | None) -> str:
    """A share for people."""
    return "not available" if share is None else f"{share * 100:.1f}%"


def _goodput(summary: Summary) -> str:
    found, wanted = summary.goodput, summary.run.header.objectives
    assert found is not None  # noqa: S101 - asked only where there is one
    names = {
        "first content": wanted.first_content_ms,
        "TPOT": wanted.tpot_ms,
        "end to end": wanted.end_to_end_ms,
    }
    kept = ", ".join(f"{name} ≤ {ms:g} ms" for name, ms in names.items() if ms is not None)
    rate = "" if found.per_s is None else f", {found.per_s:.2f}/s"
    return f"{found.kept} of {found.of} kept {kept} ({percent(found.share)}{rate})"


def _table(title: str, rows: Sequence[tuple[str, str, Figure]], error_rate: float | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # The same widths in every lane, so that a column is one column down the whole page.
    table.add_column(title, min_width=TITLE_CHARS, no_wrap=True)
    for name in ("unit", "n", "errors", "mean", *map(name_of, SHARES), "max"):
        side: Literal["left", "right"] = "left" if name == "unit" else "right"
        table.add_column(name, justify=side, min_width=6, no_wrap=True)
    for name, unit, figure in rows:
        cells = [figure.mean, *(figure.at(share) for share in SHARES), figure.most]
        table.add_row(
            name, unit, str(figure.n), percent(error_rate), *(number(cell) for cell in cells)
        )
    return table


def number(value: float | None) -> str:
    """Three figures that say something; none where n does not carry it."""
    if value is None:
        return NOT_CARRIED
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _drawn(table: Table, width: int) -> str:
    console = Console(width=width, no_color=True, highlight=False, force_terminal=False)
    with console.capture() as taken:
        console.print(table)
    lines: Iterable[str] = (line.rstrip() for line in taken.get().splitlines())
    return "\n".join(lines).strip("\n")


def _edge(header: Header) -> str:
    if not header.edge:
        return "not available: no record came"
    named = {name: value for name, value in header.edge.items() if value is not None}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named.items())


def _workload(header: Header) -> str:
    work = header.workload
    parts = [f"{work.source} ({work.name}), {work.requests} distinct"]
    if work.max_tokens is not None:
        parts.append(f"at most {work.max_tokens} tokens")
    if work.temperature is not None:
        parts.append(f"temperature {work.temperature:g}")
    return ", ".join([*parts, f"sha256 {work.sha256[:12]}"])


def _machine(header: Header) -> str:
    found = header.machine
    names = ("processor", "system", "python", "load_average_1min")
    cores = f"{found['cores']} cores" if "cores" in found else ""
    told = [f"{name.replace('_', ' ')} {found[name]}" for name in names if name in found]
    return ", ".join(part for part in (*told[:1], cores, *told[1:]) if part)
