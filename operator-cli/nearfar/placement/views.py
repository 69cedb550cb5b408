"""The measured starts as an operator looks at them: one subject's steps, three placements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearfar.placement.recording import Recording
from nearfar.placement.spread import Spread, milliseconds, shown, whole_seconds
from nearfar.placement.steps import Kind, Start
from nearfar.placement.subjects import PATH, PLACEMENTS, SUBJECTS, TITLES, Placement


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a stack, with its time in milliseconds."""

    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class Stack:
    """What one placement waits for, part after part; `missing` was not observed, and why."""

    label: str
    parts: tuple[Part, ...]
    missing: tuple[str, ...] = ()

    @property
    def total_ms(self) -> float:
        """The parts together."""
        return sum(part.ms for part in self.parts)


@dataclass(frozen=True, slots=True)
class Panel:
    """Stacks that share a scale."""

    title: str
    stacks: tuple[Stack, ...]


def spread_of(recording: Recording, subject: str, kind: Kind) -> Spread | None:
    """The totals of one subject."""
    return Spread.of(start.total_ms for start in recording.of(subject, kind))


def middle(starts: Sequence[Start]) -> Start | None:
    """The start in the middle by its total: a real one, so that its steps are its whole."""
    ordered = sorted(starts, key=lambda start: start.total_ms)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def table(recording: Recording) -> list[str]:
    """Every subject with its steps."""
    lines = [
        "Medians; 95% intervals of the median where six or more were measured, else what was seen."
    ]
    for subject in SUBJECTS.values():
        for kind in ("cold", "warm"):
            starts = recording.of(subject.name, kind)
            if starts:
                described = subject.cold if kind == "cold" else subject.warm
                lines += ["", f"{subject.title}, {kind}", f"  ({described})"]
                lines += _steps(starts)
        lines += _extra(recording, subject.name)
    for each in recording.absent:
        lines += ["", f"{SUBJECTS[each.subject].title}: not available: {each.why}"]
    return lines


def _steps(starts: Sequence[Start]) -> list[str]:
    """The steps of starts of one kind, in the order of the last one."""
    lines, of = [], whole_seconds if starts[-1].subject == "pod" else milliseconds
    for step in starts[-1].steps:
        seen = [
            s.ms
            for start in starts
            for s in start.steps
            if s.name == step.name and s.ms is not None
        ]
        value = shown(Spread.of(seen), of)
        if not seen:
            held = f"; its time is within '{step.within}'" if step.within else ""
            value = f"not available: {step.why_not}{held}"
        lines.append(f"  {step.name:<38} {value}")
    lines.append(f"  {'together':<38} {shown(Spread.of(start.total_ms for start in starts), of)}")
    notes = list(dict.fromkeys(start.note for start in starts if start.note))
    return [*lines, *(f"  note: {note}" for note in notes[:2])]


def _extra(recording: Recording, subject: str) -> list[str]:
    """What a cold one costs beyond a warm one, from pairs measured one beside the other."""
    cold = {start.number: start.total_ms for start in recording.of(subject, "cold")}
    warm = {start.number: start.total_ms for start in recording.of(subject, "warm")}
    both = [cold[number] - warm[number] for number in cold if number in warm]
    if subject != "edge-instance" or not both:
        return []
    return [f"  {'a new one beyond a warm one':<38} {shown(Spread.of(both))}"]


def placements(recording: Recording, wanted: Sequence[Placement] = PLACEMENTS) -> list[str]:
    """The placements side by side."""
    columns = [column(recording, each) for each in wanted]
    names = list(columns[0])
    width = max(24, *(len(value) for each in columns for value in each.values())) + 2
    lines = [" " * 38 + "".join(f"{TITLES[each]:<{width}}" for each in wanted)]
    lines += [
        f"{name:<38}" + "".join(f"{each[name]:<{width}}" for each in columns) for name in names
    ]
    return [line.rstrip() for line in lines]


def column(recording: Recording, placement: Placement) -> dict[str, str]:
    """One placement: what is measured of its path and its model, and what answers wait for."""
    path = PATH[placement]
    found = {
        "path, cold": spread_of(recording, path, "cold"),
        "path, warm": spread_of(recording, path, "warm"),
        "model, cold": spread_of(recording, "engine", "cold"),
        "model, warm, first token": spread_of(recording, "engine", "warm"),
    }
    cells = {name: milliseconds(each.median if each else None) for name, each in found.items()}
    for name, generated in (("cached answer, all cold", False), ("model's answer, all cold", True)):
        cells[name] = milliseconds(cold_ms(recording, placement, generated=generated))
    return cells


def cold_ms(recording: Recording, placement: Placement, *, generated: bool) -> float | None:
    """What `cold_stack` shows of starts in the middle, from medians; None where a part lacks."""
    found = [
        None if spread is None else spread.median
        for spread in (
            spread_of(recording, PATH[placement], "cold"),
            spread_of(recording, "engine", "cold"),
        )
    ]
    path, model = found
    if placement != "one-box" and not generated:
        return path
    if path is None or model is None:
        return None
    return max(path, model) if placement == "one-box" else path + model


def cold_stack(recording: Recording, placement: Placement, *, generated: bool) -> Stack:
    """What the first answer waits for when nothing runs.

    One box is one unit: its processes start together, and it is there when the slower one is, for
    cached answers too. Elsewhere the path starts first and asks for the model then; a cached answer
    does not wait for that. The parts were measured apart, one after the other.
    """
    path = middle(recording.of(PATH[placement], "cold"))
    model = middle(recording.of("engine", "cold"))
    waited: list[tuple[str, Start | None]] = [("path", path)]
    if placement == "one-box":
        if path is not None and model is not None:
            slower = ("model", model) if model.total_ms > path.total_ms else ("path", path)
            waited = [slower]
        else:
            waited = [("path", path), ("model", model)]
    elif generated:
        waited.append(("model", model))
    parts = [
        Part(f"{name}: {step.name}", step.ms)
        for name, start in waited
        if start is not None
        for step in start.steps
        if step.ms is not None
    ]
    missing = tuple(f"{name} was not measured" for name, start in waited if start is None)
    return Stack(TITLES[placement], tuple(parts), missing)


def panels(recording: Recording, wanted: Sequence[Placement] = PLACEMENTS) -> list[Panel]:
    """The picture: cached answers and the model's, each with a scale of its own."""
    return [
        Panel(title, tuple(cold_stack(recording, each, generated=generated) for each in wanted))
        for title, generated in (
            ("A cached answer, when nothing runs (of each part the start in the middle)", False),
            (
                "An answer of the model, when nothing runs (of each part the start in the middle)",
                True,
            ),
        )
    ]
