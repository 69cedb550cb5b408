"""The four plots of a report: distributions, stacked stages, the timeline, goodput against load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from nearfar.plots.drawing import Look, Picture, legend
from nearfar.plots.load_curve import Point
from nearfar.plots.palette import series
from nearfar.plots.stack import PILES, Bar
from nearfar.runs import Run, Sample

# A cloud of more dots than this says no more and makes the page heavy.
MOST_DOTS = 1500
_LEGIBLE_SHARE = 0.07  # of the plot's width, for a number in a bar


@dataclass(frozen=True, slots=True)
class Named:
    """A run and what it is called in the pictures."""

    name: str
    run: Run


def distribution(
    runs: Sequence[Named], name: str, title: str, value: Callable[[Sample], float | None]
) -> Picture:
    """The share of answers that came within a time: no bins, no smoothing, every answer counts."""

    def draw(axes: Axes, look: Look) -> None:
        for at, one in enumerate(runs):
            values = sorted(v for s in one.run.good if (v := value(s)) is not None)
            if not values:
                continue
            style = series(at)
            shares = np.arange(1, len(values) + 1) / len(values)
            axes.step(
                values,
                100 * shares,
                where="post",
                color=look[style.colour],
                linestyle=style.dash,
                label=f"{one.name} (n = {len(values)})",
            )
        axes.set_ylim(0, 101)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{title}, milliseconds")
        axes.set_ylabel("answers within, %")
        legend(axes, look)

    counted = sum(value(s) is not None for one in runs for s in one.run.good)
    says = f"Share of {counted} answers within a time, one line a run. Steeper and left is faster."
    return Picture(name, title, says, draw)


def stacked(bars: Sequence[Bar]) -> Picture:
    """Mean milliseconds of each part of the way, from the client's sending to the end."""

    def draw(axes: Axes, look: Look) -> None:
        most = max(bar.whole_ms for bar in bars)
        for row, bar in enumerate(bars):
            left = 0.0
            for pile in PILES:
                width = max(0.0, bar.piles_ms.get(pile.name, 0.0))
                axes.barh(
                    row,
                    width,
                    left=left,
                    height=0.46,
                    color=look[pile.colour],
                    hatch=pile.hatch,
                    edgecolor=look["ground"],
                    linewidth=0.8,
                    label=pile.name if row == 0 else None,
                )
                if width > (2 if look.narrow else 1) * _LEGIBLE_SHARE * most:
                    axes.text(
                        left + width / 2,
                        row,
                        f"{width:,.0f}" if width >= 10 else f"{width:.1f}",
                        ha="center",
                        va="center",
                        color=look["ground"],
                        fontweight="bold",
                        bbox={"facecolor": look[pile.colour], "edgecolor": "none", "pad": 1.5},
                    )
                left += width
            axes.text(0.0, row - 0.3, bar.name, ha="left", va="bottom", color=look["ink"])
        axes.set_yticks([])
        axes.set_ylim(len(bars) - 0.6, -0.75)
        axes.set_xlim(0, most * 1.02)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("mean milliseconds")
        legend(axes, look)

    says = "Mean time of each part of the way; a bar's length is the client's whole wait."
    return Picture("stages", "Where the time went", says, draw, rows=len(bars))


def timeline(runs: Sequence[Named]) -> Picture:
    """First content of each answer over the time when it was asked; failures at the bottom."""

    def draw(axes: Axes, look: Look) -> None:
        for at, one in enumerate(runs):
            style = series(at)
            dots = _thinned([s for s in one.run.good if s.first_content_ms is not None])
            axes.plot(
                [s.sent_s for s in dots],
                [s.first_content_ms or 0.0 for s in dots],
                style.mark,
                markersize=3.4,
                alpha=0.6,
                color=look[style.colour],
                markeredgewidth=0,
                label=one.name,
            )
            failed = _thinned([s for s in one.run.measured if not s.ok])
            if failed:
                axes.plot(
                    [s.sent_s for s in failed],
                    [0.0] * len(failed),
                    "x",
                    markersize=6,
                    color=look[style.colour],
                    clip_on=False,
                    label=f"{one.name}: failed",
                )
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds since the run's start")
        axes.set_ylabel("first content, ms")
        legend(axes, look)

    says = "First content of each answer by when it was asked; a cross is a request that failed."
    return Picture("timeline", "Timeline", says, draw)


def goodput(points: Sequence[Point]) -> Picture:
    """Requests that kept every objective a second, against the load that was offered."""

    def draw(axes: Axes, look: Look) -> None:
        kinds = list(dict.fromkeys(point.kind for point in points))
        for at, kind in enumerate(kinds):
            own = sorted((p for p in points if p.kind == kind), key=lambda p: p.load)
            style = series(at)
            axes.plot(
                [p.load for p in own],
                [p.good_per_s for p in own],
                linestyle=style.dash,
                marker=style.mark,
                color=look[style.colour],
                label=f"kept, {kind}",
            )
            for point in own:
                axes.annotate(
                    point.name.split()[0],
                    (point.load, point.good_per_s),
                    textcoords="offset points",
                    xytext=(6, 6),
                    color=look["muted"],
                    parse_math=False,
                )
        if kinds == ["requests a second"]:
            most = max(p.load for p in points) * 1.05
            axes.plot([0, most], [0, most], color=look["muted"], linewidth=1, label="all of them")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(", ".join(kinds))
        axes.set_ylabel("good requests a second")
        legend(axes, look)

    says = "Requests a second that kept every objective, against the load. A letter is a run."
    return Picture("goodput", "Goodput against load", says, draw)


def _thinned(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Every n-th of too many dots, evenly over the run."""
    step = -(-len(samples) // MOST_DOTS) or 1
    return samples[::step]
