"""Durations as people write them: 90d, 24h, 15m, 30s."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FORM = re.compile(r"([0-9]{1,6})([smhd])")
MAX_S = 10 * 365 * 86_400


def parse(text: str) -> int:
    """Return seconds.

    Raises:
        ValueError: when it is no duration, or one of more than ten years.
    """
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration; write one like 90d, 24h, 15m or 30s")
    seconds = int(found[1]) * _UNITS[found[2]]
    if seconds > MAX_S:
        raise ValueError(f"{text!r} is longer than ten years")
    return seconds


class Duration(click.ParamType[int]):
    """An option's value in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
