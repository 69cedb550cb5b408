"""Draws a picture once for the page (SVG in CSS's colours, wide and narrow) and once as PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from nearfar.plots import palette

# Inches; an SVG's inch is 72 of its units and the page scales it to the width that it has.
WIDE = (9.0, 3.9)
NARROW = (4.3, 3.9)
_PNG_DPI = 160
_PROLOGUE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)
_SIZE = re.compile(r'<svg ([^>]*?)width="[^"]*"([^>]*?)>')
_HEIGHT = re.compile(r' height="[^"]*"')


@dataclass(frozen=True, slots=True)
class Look:
    """The colours by name and whether there is little room."""

    colours: Mapping[str, str]
    narrow: bool

    def __getitem__(self, name: str) -> str:
        return self.colours[name]


Draw = Callable[[Axes, Look], None]


@dataclass(frozen=True, slots=True)
class Picture:
    """One plot: what it is called, what it says in words, how it is drawn.

    `rows` are the lines that it needs room for, where it has bars.
    """

    name: str
    title: str
    says: str
    draw: Draw
    rows: int = 0

    def size(self, narrow: bool) -> tuple[float, float]:
        """Width and height in inches."""
        width, height = NARROW if narrow else WIDE
        return width, 1.9 + 0.72 * self.rows if self.rows else height


def svg(picture: Picture, *, narrow: bool) -> str:
    """Draw for the page: no size, no prologue, names of its own, colours as CSS variables."""
    buffer = io.StringIO()
    salt = f"{picture.name}-{'n' if narrow else 'w'}"
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context({**_style(palette.STAND_INS, narrow), "svg.hashsalt": salt}):
        canvas = _canvas(picture, Look(palette.STAND_INS, narrow))
        _save(canvas, buffer, format="svg", metadata=nothing)
    drawn = _PROLOGUE.sub("", buffer.getvalue()).strip()
    drawn = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{salt}-", drawn)
    head = _SIZE.search(drawn)
    assert head is not None  # noqa: S101 - matplotlib's own head
    label = f'<svg {head[1]}{_HEIGHT.sub("", head[2])} aria-hidden="true" focusable="false">'
    return palette.with_variables(drawn.replace(head[0], label, 1))


def png(picture: Picture, path: Path) -> None:
    """Draw into a file, on a light ground."""
    with rc_context(_style(palette.LIGHT, narrow=False)):
        canvas = _canvas(picture, Look(palette.LIGHT, narrow=False))
        canvas.suptitle(picture.title, x=0.01, ha="left", fontsize=11, parse_math=False)
        _save(canvas, path, format="png", dpi=_PNG_DPI, facecolor=palette.LIGHT["ground"])


def _save(canvas: Canvas, where: io.StringIO | Path, **how: Any) -> None:
    with warnings.catch_warnings():
        # A label in a script that the font lacks: a browser has other fonts, a PNG shows boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas.savefig(where, **how)


def _canvas(picture: Picture, look: Look) -> Canvas:
    canvas = Canvas(figsize=picture.size(look.narrow), layout="constrained")
    picture.draw(canvas.subplots(), look)
    return canvas


def legend(axes: Axes, look: Look, columns: int = 3) -> None:
    """Name the series above the plot, where they cover nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    found = axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        ncols=1 if look.narrow else columns,
        frameon=False,
        borderaxespad=0.0,
        handlelength=2.6,
        columnspacing=1.4,
    )
    for text in found.get_texts():
        text.set_parse_math(False)


def _style(colours: Mapping[str, str], narrow: bool) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.0 if narrow else 9.5,
        "text.color": colours["ink"],
        "text.parse_math": False,
        "axes.labelcolor": colours["muted"],
        "axes.edgecolor": colours["muted"],
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": colours["grid"],
        "grid.linewidth": 0.8,
        "xtick.color": colours["muted"],
        "ytick.color": colours["muted"],
        "legend.labelcolor": colours["ink"],
        "lines.linewidth": 1.9,
        "hatch.linewidth": 0.7,
    }
