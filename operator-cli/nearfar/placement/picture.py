"""Stacks as a picture: bars of letters in a terminal, bars of colours in a PNG or an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any

from nearfar.errors import BadInput, Missing
from nearfar.placement.spread import milliseconds
from nearfar.placement.views import Panel, Stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
_LETTERS = ascii_lowercase + ascii_uppercase
_LABEL_CHARS = 22
_VALUE_CHARS = 14
_MIN_BAR_CHARS = 20


def text(panels: Sequence[Panel], width: int = 100) -> list[str]:
    """Every panel with a scale of its own; a letter means the same part everywhere.

    A part that is too short for a letter has none in its bar.
    """
    letters = dict(zip(names(panels), _LETTERS, strict=False))
    room = max(_MIN_BAR_CHARS, width - _LABEL_CHARS - _VALUE_CHARS)
    lines = list[str]()
    for panel in panels:
        most_ms = max((stack.total_ms for stack in panel.stacks), default=0.0)
        lines += ["", panel.title]
        lines += [_stack(stack, letters, most_ms, room) for stack in panel.stacks]
        lines += _legend(panel, letters, room)
    return lines[1:]


def names(panels: Sequence[Panel]) -> list[str]:
    """Every part's name once, in the order they come."""
    found = (part.name for panel in panels for stack in panel.stacks for part in stack.parts)
    return list(dict.fromkeys(found))


def _stack(stack: Stack, letters: Mapping[str, str], most_ms: float, width: int) -> str:
    if not stack.parts:
        return f"{stack.label:<{_LABEL_CHARS}}not available: {', '.join(stack.missing)}"
    parts = [(letters.get(part.name, "?"), part.ms) for part in stack.parts]
    return f"{stack.label:<{_LABEL_CHARS}}{bar(parts, most_ms, width)} {_told(stack)}"


def _legend(panel: Panel, letters: Mapping[str, str], width: int) -> list[str]:
    """The parts of a panel; a part is of one start, and so as long in every stack."""
    parts = {part.name: part.ms for stack in panel.stacks for part in stack.parts}
    named = [f"{letters.get(name, '?')} {name} {milliseconds(ms)}" for name, ms in parts.items()]
    return _wrapped(named, width)


def _told(stack: Stack) -> str:
    more = f", and {', '.join(stack.missing)}" if stack.missing else ""
    return (milliseconds(stack.total_ms) if stack.parts else "nothing") + more


def bar(parts: Sequence[tuple[str, float]], most_ms: float, width: int) -> str:
    """Each part's letter, as often as the part is of `most_ms` in `width` characters.

    Ends are rounded and not lengths, so that the whole has the whole's length.
    """
    drawn, end_ms = "", 0.0
    for letter, part_ms in parts:
        end_ms += part_ms
        end = round(end_ms / most_ms * width) if most_ms else 0
        drawn += letter * (end - len(drawn))
    return drawn or "|"


def _wrapped(named: Sequence[str], width: int) -> list[str]:
    lines, line = list[str](), ""
    for each in named:
        if line and len(line) + len(each) + 3 > width:
            lines.append(line)
            line = ""
        line = f"{line} · {each}" if line else each
    return [" " * _LABEL_CHARS + found for found in (*lines, line) if found]


def draw(panels: Sequence[Panel], path: Path, caption: str) -> None:
    """Write the picture, in the format that the file's name ends in.

    Raises:
        BadInput: the name ends in no such format, or the file cannot be written.
        Missing: matplotlib is not there.
    """
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"{path} is neither a .png nor a .svg.", "name it picture.png")
    try:
        from matplotlib import colormaps
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise Missing("matplotlib is not installed.", "./nearfar setup") from error
    palette = [colormaps["tab20"](index) for index in range(20)]
    colours = {name: palette[i % 20] for i, name in enumerate(names(panels))}
    rows = [max(1, len(panel.stacks)) for panel in panels]
    figure = Figure(figsize=(11, 2.4 + 0.75 * sum(rows)), layout="constrained")
    grid = figure.subplots(len(panels), 1, height_ratios=rows, squeeze=False)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _panel(axes, panel, colours)
    keys = [Patch(color=colour, label=name) for name, colour in colours.items()]
    if keys:
        figure.legend(handles=keys, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.suptitle(caption, fontsize=8, color="#555555", x=0.01, ha="left")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}).", "name another file."
        ) from error


def _panel(axes: Axes, panel: Panel, colours: Mapping[str, Any]) -> None:
    most_ms = max((stack.total_ms for stack in panel.stacks), default=0.0) or 1.0
    for row, stack in enumerate(panel.stacks):
        left_ms = 0.0
        for part in stack.parts:
            colour = colours[part.name]
            axes.barh(row, part.ms / 1000, left=left_ms / 1000, color=colour, height=0.6)
            left_ms += part.ms
        axes.text((left_ms + most_ms * 0.01) / 1000, row, _told(stack), va="center", fontsize=8)
    axes.set_yticks(range(len(panel.stacks)), [stack.label for stack in panel.stacks])
    axes.invert_yaxis()
    axes.set_xlim(0, most_ms * 1.35 / 1000)
    axes.set_xlabel("seconds", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
