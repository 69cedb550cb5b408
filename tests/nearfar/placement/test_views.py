from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfar.errors import BadInput
from nearfar.placement import picture, recording, views
from nearfar.placement.recording import Recording
from nearfar.placement.steps import Kind, Mark, Start, Step, started
from nearfar.placement.subjects import PLACEMENTS, Placement
from nearfar.placement.views import Panel, Part, Stack


def start(subject: str, kind: Kind, number: int, *ends: float) -> Start:
    marks = [Mark(f"step {i}", end) for i, end in enumerate(ends)]
    return started(subject, kind, number, 0.0, marks)


def measured(*starts: Start) -> Recording:
    made = recording.begin([], PLACEMENTS, [], (1, 1), None)
    for each in starts:
        made.add(each)
    return made


@pytest.fixture
def whole() -> Recording:
    """A path of 1,000 ms in a process and of 4 ms as an instance; a model of 40 s."""
    return measured(
        start("container", "cold", 0, 900, 1000),
        start("container", "warm", 0, 2),
        start("edge-instance", "cold", 0, 1, 4),
        start("edge-instance", "warm", 0, 1, 3),
        start("edge-instance", "cold", 1, 1, 7),
        start("edge-instance", "warm", 1, 1, 3),
        start("engine", "cold", 0, 30_000, 40_000),
        start("engine", "warm", 0, 50),
    )


def test_the_start_in_the_middle_is_a_real_one() -> None:
    starts = [start("container", "cold", n, ms) for n, ms in enumerate((5, 1, 9, 7))]
    assert 5 == views.middle(starts).total_ms  # type: ignore[union-attr]
    assert views.middle([]) is None


@pytest.mark.parametrize(
    ("placement", "generated", "ms"),
    [
        ("one-box", False, 40_000),
        ("one-box", True, 40_000),
        ("container", False, 1_000),
        ("container", True, 41_000),
        ("split", False, 4),
        ("split", True, 40_004),
    ],
)
def test_a_placement_waits_for_what_must_be_there(
    whole: Recording, placement: Placement, generated: bool, ms: float
) -> None:
    stack = views.cold_stack(whole, placement, generated=generated)
    assert (ms, ()) == (stack.total_ms, stack.missing)


def test_a_box_whose_path_is_slower_than_its_model_waits_for_the_path() -> None:
    found = measured(start("container", "cold", 0, 9), start("engine", "cold", 0, 5))
    assert 9 == views.cold_stack(found, "one-box", generated=False).total_ms


def test_what_was_not_measured_is_never_added() -> None:
    found = measured(start("container", "cold", 0, 9))
    without = ("model was not measured",)
    assert without == views.cold_stack(found, "container", generated=True).missing
    assert without == views.cold_stack(found, "one-box", generated=False).missing
    cells = views.column(found, "container")
    assert ("9.00 ms", "not available") == (
        cells["cached answer, all cold"], cells["model's answer, all cold"],
    )  # fmt: skip


def test_the_placements_stand_side_by_side(whole: Recording) -> None:
    lines = views.placements(whole)
    assert ["one GPU box", "container serverless", "edge plus GPU"] == [
        title.strip() for title in lines[0].split("  ") if title.strip()
    ]
    name = "cached answer, all cold"
    (cached,) = [line.removeprefix(name) for line in lines if line.startswith(name)]
    assert ["40.0 s", "1.00 s", "5.50 ms"] == [
        word.strip() for word in cached.split("  ") if word.strip()
    ]


def test_a_new_instance_is_told_beyond_a_warm_one_by_pairs(whole: Recording) -> None:
    (line,) = [line for line in views.table(whole) if "a new one beyond a warm one" in line]
    assert "2.50 ms (1.00 ms to 4.00 ms seen, n=2)" in line


def test_a_step_that_was_never_seen_says_why_and_where_its_time_is() -> None:
    marks = [Mark("image", None, "nobody pulled it"), Mark("answer", 3)]
    outside = (Step("machine", None, "it ran"),)
    text = "\n".join(
        views.table(measured(started("container", "cold", 0, 0, marks, outside=outside)))
    )
    assert "not available: nobody pulled it; its time is within 'answer'" in text
    assert "not available: it ran\n" in text


def test_what_could_not_be_measured_is_in_the_table() -> None:
    found = measured(start("container", "cold", 0, 9))
    found.leave_out("engine", "there is no vLLM")
    assert "GPU half: vLLM: not available: there is no vLLM" in views.table(found)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=12), st.integers(20, 120))
def test_a_bar_is_as_long_as_its_whole(parts: list[float], width: int) -> None:
    most_ms = max(sum(parts), 1e-9) * 2
    drawn = picture.bar([(chr(97 + i), ms) for i, ms in enumerate(parts)], most_ms, width)
    assert max(1, round(sum(parts) / most_ms * width)) == len(drawn)
    assert drawn == "|" or sorted(drawn) == list(drawn)


def test_a_letter_means_the_same_part_in_every_bar(whole: Recording) -> None:
    lines = picture.text(views.panels(whole), 100)
    named = [part for line in lines if line.startswith(" ") for part in line.strip().split(" · ")]
    letters = {part.split()[0]: part.split(" ", 1)[1].rsplit(" ", 2)[0] for part in named}
    assert len(letters) == len(set(letters.values())) == 4


def test_nothing_that_was_measured_is_no_bar() -> None:
    lines = picture.text([Panel("x", (Stack("one GPU box", (), ("path was not measured",)),))])
    assert ["x", "one GPU box           not available: path was not measured"] == lines


def test_the_pictures_are_ones(whole: Recording, tmp_path: Path) -> None:
    panels = views.panels(whole)
    picture.draw(panels, tmp_path / "x.svg", "a caption")
    picture.draw(panels, tmp_path / "x.png", "a caption")
    assert "svg" in ET.parse(tmp_path / "x.svg").getroot().tag  # noqa: S314 - our own file
    assert b"\x89PNG" == (tmp_path / "x.png").read_bytes()[:4]


def test_a_picture_of_nothing_is_drawn_too(tmp_path: Path) -> None:
    picture.draw(
        [Panel("x", (Stack("a", ()), Stack("b", (Part("c", 0.0),))))], tmp_path / "x.svg", ""
    )
    assert (tmp_path / "x.svg").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("x.gif", "neither"), ("absent/x.png", "cannot be written")]
)
def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        picture.draw([Panel("x", ())], tmp_path / name, "")


def test_a_pods_steps_are_told_in_the_whole_seconds_that_they_have() -> None:
    lines = views.table(measured(start("pod", "cold", 0, 0, 57_000)))
    assert "  step 0                                 0 s (0 s to 0 s seen, n=1)" in lines
    assert "  together                               57 s (57 s to 57 s seen, n=1)" in lines
