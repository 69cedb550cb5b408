"""A line chart as SVG, drawn by hand: two axes from zero, a line and a name for each series."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 56
COLOURS = ("#1b6ca8", "#c0392b", "#2e7d32", "#8e44ad")

Point = tuple[float, float]


def svg(
    title: str,
    axes: tuple[str, str],
    series: Mapping[str, Sequence[Point]],
    steps: tuple[Sequence[float], Sequence[float]],
) -> str:
    """The drawing; `steps` are the marks of both axes, the last of each its end."""
    ends = steps[0][-1], steps[1][-1]

    def at(point: Point) -> Point:
        x = LEFT + point[0] / ends[0] * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - point[1] / ends[1] * (HEIGHT - TOP - BOTTOM)
        return round(x, 1), round(y, 1)

    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text((LEFT, 24), title, "start", 15),
        _text((at((ends[0] / 2, 0))[0], HEIGHT - 14), axes[0], "middle"),
        _text((LEFT, TOP - 6), axes[1], "start"),
    ]
    for value in steps[0]:
        x, y = at((value, 0))
        parts += [_line((x, y), (x, y + 5)), _text((x, y + 20), f"{value:g}", "middle")]
    for value in steps[1]:
        x, y = at((0, value))
        parts += [
            _line((x, y), at((ends[0], value)), "#ddd"),
            _text((x - 8, y + 4), f"{value:g}", "end"),
        ]
    parts += [_line(at((0, 0)), at((ends[0], 0))), _line(at((0, 0)), at((0, ends[1])))]
    for (name, points), colour in zip(series.items(), COLOURS, strict=False):
        places = [at(point) for point in points]
        drawn = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        parts.append(_text((x + 10, y + 4), name, "start", colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _text(at: Point, text: str, anchor: str, size: int = 13, colour: str = "#222") -> str:
    return (
        f'<text x="{at[0]}" y="{at[1]}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


def _line(begin: Point, end: Point, colour: str = "#222") -> str:
    return f'<line x1="{begin[0]}" y1="{begin[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{colour}"/>'
