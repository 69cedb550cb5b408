"""Colours by name, for a light and a dark ground.

The hues are those of Okabe and Ito's set for colour-blind readers ("Color Universal Design", 2008),
darker on light and lighter on dark. Lines differ in dash and mark as well, and bars in hatch, so
that nothing is told by colour alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# In a drawn SVG each colour is a stand-in, which becomes a CSS variable: one picture, two grounds.
_NAMES = (
    "ground",
    "ink",
    "muted",
    "grid",
    "blue",
    "orange",
    "green",
    "vermillion",
    "purple",
    "sky",
    "grey",
    "pale",
)
LIGHT: Mapping[str, str] = MappingProxyType(
    dict(
        zip(
            _NAMES,
            (
                "#ffffff",
                "#1c2430",
                "#5a6675",
                "#dfe4ea",
                "#0072b2",
                "#b87700",
                "#00805c",
                "#c14e00",
                "#a8497f",
                "#2f8fc4",
                "#7d8794",
                "#c3cad3",
            ),
            strict=True,
        )
    )
)
DARK: Mapping[str, str] = MappingProxyType(
    dict(
        zip(
            _NAMES,
            (
                "#12161c",
                "#e8ecf1",
                "#a3adba",
                "#2c343e",
                "#5db4ec",
                "#f0b23e",
                "#35c596",
                "#ff8a4c",
                "#e38ebf",
                "#8fd0f7",
                "#98a2af",
                "#4a5461",
            ),
            strict=True,
        )
    )
)
STAND_INS: Mapping[str, str] = MappingProxyType(
    {name: f"#0{at:x}0e0{at:x}" for at, name in enumerate(_NAMES, 1)}
)
_BY_STAND_IN = {value: name for name, value in STAND_INS.items()}
_ATTRIBUTE = re.compile(r'\bfill="(#[0-9a-f]{6})"')
_FOUND = re.compile("|".join(_BY_STAND_IN))


@dataclass(frozen=True, slots=True)
class Series:
    """How one run is told from the others."""

    colour: str
    dash: str
    mark: str


SERIES = (
    Series("blue", "-", "o"),
    Series("vermillion", "--", "s"),
    Series("green", "-.", "^"),
    Series("purple", ":", "D"),
    Series("orange", (0, (5, 1)), "v"),  # type: ignore[arg-type]
    Series("grey", (0, (1, 1)), "P"),  # type: ignore[arg-type]
)


def series(number: int) -> Series:
    """The look of a run; after the last one it begins again."""
    return SERIES[number % len(SERIES)]


def with_variables(svg: str) -> str:
    """Put CSS variables in the place of the stand-ins; they need a style, an attribute has none."""
    svg = _ATTRIBUTE.sub(r'style="fill:\1"', svg)
    return _FOUND.sub(lambda found: f"var(--{_BY_STAND_IN[found[0]]})", svg)


def css() -> str:
    """The variables for both grounds."""
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in colours.items())
        for colours in (LIGHT, DARK)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )
