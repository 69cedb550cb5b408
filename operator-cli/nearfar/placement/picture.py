"""Stacks as a picture: bars of letters in a terminal, bars of colours in a PNG or an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase

from nearfar.errors import BadInput, Missing
from nearfar.placement.spread import milliseconds
from nearfar.placement.views import Panel, Stack

FORMATS = (".png", ".svg")
_LABEL_CHARS = 22
_VALUE_CHARS = 14
_MIN_BAR_CHARS = 20


def text(panels: Sequence[Panel], width: int = 100) -> list[str]:
    """Every panel with a scale of its own; a part that is too short for a letter has none."""
    lines = list[str]()
    for panel in panels:
        most_ms = max((stack.total_ms for stack in panel.stacks), default=0.0)
        lines += ["", panel.title]
        for stack in panel.stacks:
            lines += _stack(
                stack, most_ms, max(_MIN_BAR_CHARS, width - _LABEL_CHARS - _VALUE_CHARS)
            )
    return lines[1:]


def _stack(stack: Stack, most_ms: float, width: int) -> list[str]:
    if not stack.parts:
        return [f"{stack.label:<{_LABEL_CHARS}}not available: {', '.join(stack.missing)}"]
    drawn = bar([part.ms for part in stack.parts], most_ms, width)
    more = f" and {', '.join(stack.missing)}" if stack.missing else ""
    head = f"{stack.label:<{_LABEL_CHARS}}{drawn} {milliseconds(stack.total_ms)}{more}"
    named = [
        f"{letter} {part.name} {milliseconds(part.ms)}"
        for letter, part in zip(ascii_lowercase, stack.parts, strict=False)
    ]
    return [head, *_wrapped(named, width)]


def bar(parts_ms: Sequence[float], most_ms: float, width: int) -> str:
    """Letters from a on, as many as each part is of `most_ms` in `width` characters.

    Ends are rounded and not lengths, so that the whole has the whole's length.
    """
    drawn, end_ms = "", 0.0
    for letter, part_ms in zip(ascii_lowercase, parts_ms, strict=False):
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


def check(path: Path) -> None:
    """Raise BadInput unless the name ends in a format that can be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise BadInput(f"{path} is neither a .png nor a .svg.", "name it picture.png")


def draw(panels: Sequence[Panel], path: Path, caption: str) -> None:
    """Write the picture.

    Raises:
        BadInput: the file cannot be written.
        Missing: matplotlib is not there.
    """
    check(path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Missing("matplotlib is not installed.", "./nearfar setup") from error
    rows = [max(1, len(panel.stacks)) for panel in panels]
    figure = Figure(figsize=(10, 1.6 + 0.95 * sum(rows)), layout="constrained")
    grid = figure.subplots(len(panels), 1, height_ratios=rows, squeeze=False)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _panel(axes, panel)
    figure.text(0.01, 0.005, caption, fontsize=7, color="#555555", va="bottom")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}).", "name another file."
        ) from error


def _panel(axes: object, panel: Panel) -> None:
    from matplotlib import colormaps
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)  # noqa: S101 - subplots types its array as anything
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    names = list(dict.fromkeys(part.name for stack in panel.stacks for part in stack.parts))
    most_ms = max((stack.total_ms for stack in panel.stacks), default=0.0) or 1.0
    for row, stack in enumerate(panel.stacks):
        left = 0.0
        for part in stack.parts:
            colour = colours[names.index(part.name) % len(colours)]
            label = part.name if part.name in names else None
            axes.barh(row, part.ms / 1000, left=left / 1000, color=colour, label=label, height=0.6)
            left += part.ms
        told = milliseconds(stack.total_ms) if stack.parts else "not available"
        missing = f" ({'; '.join(stack.missing)})" if stack.missing else ""
        axes.text((left + most_ms * 0.01) / 1000, row, told + missing, va="center", fontsize=8)
    axes.set_yticks(range(len(panel.stacks)), [stack.label for stack in panel.stacks])
    axes.invert_yaxis()
    axes.set_xlim(0, most_ms * 1.2 / 1000)
    axes.set_xlabel("seconds", fontsize=8)
    axes.set_title(panel.title, loc="left", fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), fontsize=6, ncols=4, loc="upper left",
                bbox_to_anchor=(0, -0.28))  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
