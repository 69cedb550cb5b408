"""A start as steps on one clock, which together are the whole of it: no gap, no overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["cold", "warm"]
# What rounding to microseconds may add up to over the steps of one start.
_SLACK_MS = 0.05


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of one step, in milliseconds since the start's beginning.

    `at_ms` None: its end was not seen, for the reason that is given; its time is then within the
    next step whose end was seen.
    """

    name: str
    at_ms: float | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `ms` None: not observed, and why; `within` names the step that holds its time.

    `within` is empty for what lies outside the whole, such as an image that nobody pulled.
    """

    name: str
    ms: float | None
    why_not: str = ""
    within: str = ""

    def __post_init__(self) -> None:
        if (self.ms is None) != bool(self.why_not):
            raise ValueError(f"step {self.name!r} has a time or a reason why it has none")
        if self.ms is not None and not (math.isfinite(self.ms) and self.ms >= 0):
            raise ValueError(f"step {self.name!r} takes {self.ms} ms")


@dataclass(frozen=True, slots=True)
class Start:
    """One measured start, or one request to something that had started before (`warm`).

    `subject` is one of `subjects.SUBJECTS`; `number` counts its measurements from 0; `began_s` is
    when it began on the wall clock, in seconds since 1970.
    """

    subject: str
    condition: Kind
    number: int
    began_s: float
    total_ms: float
    steps: tuple[Step, ...]
    note: str = ""

    def __post_init__(self) -> None:
        told = sum(step.ms for step in self.steps if step.ms is not None)
        if abs(told - self.total_ms) > _SLACK_MS * max(1, len(self.steps)):
            raise ValueError(f"the steps take {told:.3f} ms, the whole {self.total_ms:.3f} ms")


def steps_between(marks: Sequence[Mark]) -> tuple[Step, ...]:
    """Turn the ends of successive steps into steps that partition the whole.

    The last mark is the whole's end and must have been seen. Marks that come back in another order
    than they stand are refused: one of them was not what its name says.

    Raises:
        ValueError: for such marks.
    """
    seen = [(mark.name, mark.at_ms) for mark in marks if mark.at_ms is not None]
    if not marks or marks[-1].at_ms is None:
        raise ValueError("a start needs an end")
    steps, before_ms, following = list[Step](), 0.0, iter(seen)
    name, at_ms = next(following)
    for mark in marks:
        if mark.at_ms is None:
            steps.append(Step(mark.name, None, mark.why_not or "its end was not seen", name))
            continue
        if mark.at_ms < before_ms:
            raise ValueError(f"{mark.name!r} ended before the step in front of it")
        steps.append(Step(mark.name, round(mark.at_ms - before_ms, 3)))
        before_ms = at_ms
        name, at_ms = next(following, ("", before_ms))
    return tuple(steps)


def started(
    subject: str,
    kind: Kind,
    number: int,
    began_s: float,
    marks: Sequence[Mark],
    *,
    outside: Sequence[Step] = (),
    note: str = "",
) -> Start:
    """A start from its marks. `outside`: what belongs to such a start elsewhere, not here."""
    last = marks[-1].at_ms if marks else None
    if last is None:
        raise ValueError("a start needs an end")
    steps = (*outside, *steps_between(marks))
    return Start(subject, kind, number, round(began_s, 3), round(last, 3), steps, note)
