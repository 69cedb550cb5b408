from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.placement.steps import Mark, Start, Step, started, steps_between

TIMES = st.lists(st.floats(0, 1e5), min_size=1, max_size=8).map(sorted)


@settings(deadline=None)
@given(TIMES, st.data())
def test_the_steps_are_the_whole_without_gap_or_overlap(
    ends: list[float], data: st.DataObject
) -> None:
    """Whichever ends were not seen, but for the last."""
    hidden = data.draw(st.sets(st.integers(0, max(0, len(ends) - 2)), max_size=len(ends) - 1))
    marks = [
        Mark(f"step {i}", None if i in hidden and i < len(ends) - 1 else end, "hidden")
        for i, end in enumerate(ends)
    ]
    steps = steps_between(marks)
    assert [mark.name for mark in marks] == [step.name for step in steps]
    told = sum(step.ms for step in steps if step.ms is not None)
    assert told == pytest.approx(ends[-1], abs=0.001 * len(ends))
    for mark, step in zip(marks, steps, strict=True):
        assert (mark.at_ms is None) == (step.ms is None)


def test_a_step_whose_end_was_not_seen_lies_within_the_next_one_that_was() -> None:
    steps = steps_between([Mark("a", 1), Mark("b", None, "quiet"), Mark("c", None), Mark("d", 5)])
    assert (
        Step("a", 1.0),
        Step("b", None, "quiet", "d"),
        Step("c", None, "its end was not seen", "d"),
        Step("d", 4.0),
    ) == steps


@pytest.mark.parametrize(
    "marks",
    [
        [],
        [Mark("a", 1), Mark("b", None, "x")],
        [Mark("a", 2), Mark("b", 1)],
        [Mark("a", 2), Mark("b", None, "x"), Mark("c", 1)],
    ],
)
def test_marks_that_are_no_start_are_refused(marks: list[Mark]) -> None:
    with pytest.raises(ValueError, match=r"end|ended"):
        steps_between(marks)


def test_what_lies_outside_has_no_time_and_no_step_that_holds_it() -> None:
    image = Step("image", None, "nobody pulled it")
    start = started("container", "cold", 0, 1.0, [Mark("a", 3)], outside=(image,))
    assert (3.0, (image, Step("a", 3.0))) == (start.total_ms, start.steps)


def test_a_whole_that_is_not_its_steps_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="the whole 9"):
        Start("container", "cold", 0, 0.0, 9.0, (Step("a", 3.0),))


@pytest.mark.parametrize(
    ("ms", "why_not"), [(None, ""), (1.0, "a reason"), (-1.0, ""), (float("nan"), "")]
)
def test_a_step_has_a_time_or_a_reason(ms: float | None, why_not: str) -> None:
    with pytest.raises(ValueError, match="step 'a'"):
        Step("a", ms, why_not)
