"""What stands in a report: of some runs, the pictures and the same numbers in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nearfar.figures import summary, tables
from nearfar.figures.percentiles import SHARES, Figure, name_of
from nearfar.figures.summary import Summary
from nearfar.plots import load_curve, pictures, stack
from nearfar.plots.drawing import Picture, png
from nearfar.plots.html import Markup, Piece, table
from nearfar.plots.page import Section, page
from nearfar.plots.pictures import Named
from nearfar.runs import Run, Sample

MOST_NAME_CHARS = 28
_NONE = "not available"
_LANES = (("client", "Client lane"), ("edge", "Edge lane"), ("engine", "Engine lane"))
_PERCENTILES = tuple(name_of(share) for share in SHARES)
_CARRIED = "A percentile that the number of samples does not carry is not printed."


def named(runs: Sequence[Run]) -> tuple[Named, ...]:
    """Call each run by a letter and its label, which is cut where a legend has no room for it."""
    return tuple(Named(_name(at, run), run) for at, run in enumerate(runs))


def _name(at: int, run: Run) -> str:
    label = " ".join((run.header.label or run.header.run).split())
    if len(label) > MOST_NAME_CHARS:
        label = label[: MOST_NAME_CHARS - 1] + "…"
    letter = chr(ord("A") + at) if at < 26 else str(at + 1)
    return f"{letter} {label}"


def render(runs: Sequence[Run], title: str) -> str:
    """The page."""
    names = named(runs)
    summed = [(one.name, summary.of(one.run)) for one in names]
    lead = (
        f"{len(names)} run{'s' if len(names) > 1 else ''} of nearfar. Latency is of whole answers "
        "after the warm-up; failed requests are counted beside it and are in no latency. A value "
        "that was not observed is not available, and never zero."
    )
    minded = [f"{name}: {each}" for name, one in summed for each in _minded(one)]
    sections = [_facts(summed), *_distributions(names, summed), *_stages(names), *_time(names)]
    return page(title, lead, minded, [*sections, *_goodput(summed), *_figures(summed)])


def _minded(one: Summary) -> Iterator[str]:
    """What a reader has to mind; that a dash is too few samples stands at each table."""
    return (each for each in tables.remarks(one) if not each.startswith(tables.NOT_CARRIED))


def pictures_of(runs: Sequence[Run]) -> tuple[Picture, ...]:
    """The pictures alone."""
    names = named(runs)
    summed = [(one.name, summary.of(one.run)) for one in names]
    sections = [*_distributions(names, summed), *_stages(names), *_time(names), *_goodput(summed)]
    return tuple(s.picture for s in sections if s.picture is not None)


def write_png(runs: Sequence[Run], stem: Path) -> tuple[Path, ...]:
    """Draw each picture into a file beside the page."""
    found = []
    for picture in pictures_of(runs):
        path = stem.with_name(f"{stem.name}-{picture.name}.png")
        png(picture, path)
        found.append(path)
    return tuple(found)


def _facts(summed: Sequence[tuple[str, Summary]]) -> Section:
    """What was measured, a column a run."""
    columns = [dict(_fact(one)) for _, one in summed]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows: list[list[Piece]] = [
        [name, *(column.get(name, _NONE) or _NONE for column in columns)] for name in names
    ]
    inner = table(["", *(name for name, _ in summed)], rows)
    facts = Markup(f'<div class="facts">{inner}</div>')
    return Section("What was measured", None, None, [facts])


def _fact(one: Summary) -> Iterator[tuple[str, str]]:
    header, run = one.run.header, one.run
    yield "run", f"{header.run}, {header.started_at}"
    yield "label", header.label or ""
    yield "address", header.target.url
    yield "model", header.target.model
    yield "placement", header.placement or ""
    yield "load", tables.load(header.load)
    workload = header.workload
    yield "workload", f"{workload.name} ({workload.source}, {workload.requests} requests)"
    yield "answer cache", header.cache
    yield "measured", f"{len(run.measured)} requests, {len(run.good)} whole answers"
    yield "errors", tables.percent(one.error_rate)
    yield "failed", ", ".join(f"{n} × {name}" for name, n in one.failures.items()) or "none"
    rate = one.per_s(len(run.good))
    yield "whole answers a second", "" if rate is None else f"{rate:.2f}"
    kept = one.goodput
    yield "kept all objectives", "" if kept is None else f"{kept.kept} of {kept.of}"
    edge = header.edge or {}
    told = [f"{name} {edge[name]}" for name in ("version", "settings_hash") if edge.get(name)]
    yield "edge", ", ".join(told)
    machine = header.machine
    yield "machine", ", ".join(str(machine[n]) for n in ("processor", "cores") if machine.get(n))
    yield "nearfar", header.nearfar


def _distributions(
    names: Sequence[Named], summed: Sequence[tuple[str, Summary]]
) -> Iterator[Section]:
    wanted: tuple[tuple[str, str, str, Callable[[Sample], float | None]], ...] = (
        ("first-content", "First content", "first_content_ms", lambda s: s.first_content_ms),
        ("end-to-end", "End to end", "end_to_end_ms", lambda s: s.end_to_end_ms),
    )
    for name, title, key, value in wanted:
        if not any(value(s) is not None for one in names for s in one.run.good):
            continue
        picture = pictures.distribution(names, name, title, value)
        figures = [(n, r.figure) for n, one in summed for r in one.rows if r.kind.key == key]
        numbers = [_percentiles(figures, f"{title}, milliseconds. {_CARRIED}")]
        yield Section(title, None, picture, numbers, open=True)


def _stages(names: Sequence[Named]) -> Iterator[Section]:
    bars = [bar for one in names for bar in stack.bars(one.name, one.run.good)]
    if not bars:
        why = "The edge sent no record of where the time went: the key needs the permission trace."
        yield Section("Where the time went", why, None, [])
        return
    parts = list(dict.fromkeys(name for bar in bars for name in bar.parts_ms))
    rows: list[list[Piece]] = [
        [part, *(_number(bar.parts_ms.get(part)) for bar in bars)] for part in parts
    ]
    rows.append(["whole wait", *(_number(bar.whole_ms) for bar in bars)])
    heads = ["", *(bar.name for bar in bars)]
    text = (
        "Client, edge and engine have a clock each, and no instant of one is subtracted from "
        "another's. The parts are durations of which one holds the other: before t0 is what the "
        "client waited and the edge did not see, unattributed what lies between dispatch and first "
        "content and the engine does not tell. It is not the network alone."
    )
    numbers = [table(heads, rows, "Mean milliseconds")]
    yield Section("Where the time went", text, pictures.stacked(bars), numbers)


def _time(names: Sequence[Named]) -> Iterator[Section]:
    tables_of = [_blocks(one) for one in names]
    yield Section("Timeline", None, pictures.timeline(names), tables_of)


def _blocks(one: Named) -> Markup:
    """The timeline in numbers: a row a block."""
    blocks = sorted({s.block for s in one.run.measured})
    rows: list[list[Piece]] = []
    for block in blocks:
        own = [s for s in one.run.measured if s.block == block]
        figure = Figure.of(s.first_content_ms for s in own if s.ok)
        began = min(s.sent_s for s in own)
        failed = sum(not s.ok for s in own)
        rows.append(
            [
                str(block),
                f"{began:.1f}",
                str(len(own)),
                str(failed),
                _number(figure.at(0.5)),
                _number(figure.most),
            ]
        )
    heads = ["block", "from second", "requests", "failed", "first content p50, ms", "most, ms"]
    return table(heads, rows, one.name)


def _goodput(summed: Sequence[tuple[str, Summary]]) -> Iterator[Section]:
    points = load_curve.points(summed)
    if not points:
        return
    loads = {(point.kind, point.load) for point in points}
    text = None
    if len(loads) < 2:
        text = "All runs have one load. Runs at several rates (nearfar bench --rate) make a curve."
    rows: list[list[Piece]] = [
        [
            p.name,
            f"{p.load:g} {p.kind}",
            f"{p.good_per_s:.2f}",
            tables.percent(p.share),
            p.objectives,
        ]
        for p in points
    ]
    heads = ["run", "load", "good a second", "share", "good is"]
    picture = pictures.goodput(points)
    yield Section("Goodput against load", text, picture, [table(heads, rows, "Goodput")])


def _figures(summed: Sequence[tuple[str, Summary]]) -> Iterator[Section]:
    """Every figure of every lane."""
    for lane, title in _LANES:
        numbers = []
        for name, one in summed:
            rows = [
                (f"{r.kind.title}, {r.kind.unit}", r.figure)
                for r in one.rows
                if r.kind.lane == lane and r.figure.n
            ]
            if rows:
                numbers.append(_percentiles(rows, f"{name}. {_CARRIED}"))
        if numbers:
            yield Section(title, "On its own clock, from its own zero.", None, numbers)


def _percentiles(rows: Sequence[tuple[str, Figure]], caption: str) -> Markup:
    heads = ["", "n", "mean", *_PERCENTILES, "most"]
    body: list[list[Piece]] = [
        [
            name,
            str(figure.n),
            _number(figure.mean),
            *(_number(figure.at(share)) for share in SHARES),
            _number(figure.most),
        ]
        for name, figure in rows
    ]
    return table(heads, body, caption)


def _number(value: float | None) -> str:
    """Three figures that say something; a dash where n does not carry it."""
    return "–" if value is None else tables.number(value)
