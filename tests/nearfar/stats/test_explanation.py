"""The part that is named is the one that moved; what cannot be seen is never named."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fakes.made_run import PARTS, Making, made
from nearfar.runs import Run
from nearfar.stats import stages, telling
from nearfar.stats.comparison import Comparison, Options, compared
from nearfar.stats.explanation import NO_RECORDS, NOT_ENOUGH, NOTHING_FELT

TURNS: Mapping[str, str] = {"interleaved": "pair-1"}


def pair(before: Making, after: Making) -> Comparison:
    """Compare two made runs of one pair."""
    one, two = made(before, settings=TURNS), made(after, settings=TURNS)
    return compared(one, two, Options(draws=800))


def sides(**after: object) -> Comparison:
    return pair(Making(seed=1, drift_seed=9), Making(seed=2, drift_seed=9, **after))  # type: ignore[arg-type]


@pytest.mark.parametrize("part", PARTS)
def test_the_part_that_moved_is_named_and_no_other(part: str) -> None:
    found = sides(more={part: 25.0}).explanation
    assert found.most is not None
    assert part == found.most.name
    assert 25.0 == pytest.approx(found.most.value, abs=4.0)
    assert 1.0 == pytest.approx(found.share, abs=0.35)
    assert [part] == [each.name for each in found.parts if each.seen]


@pytest.mark.parametrize("part", ["look_up", "engine first token", "engine generation"])
def test_a_part_that_got_faster_is_named_too(part: str) -> None:
    found = pair(
        Making(seed=1, drift_seed=9, more={part: 25.0}), Making(seed=2, drift_seed=9)
    ).explanation
    assert found.most is not None
    assert (part, "faster") == (found.most.name, found.most.word)


def test_nothing_is_named_where_nothing_moved() -> None:
    found = sides().explanation
    assert found.most is None
    assert NOTHING_FELT == found.why_not


def test_a_part_that_the_whole_varies_too_much_to_show_is_named_as_that() -> None:
    found = pair(
        Making(seed=1, drift_ms=900.0), Making(seed=2, drift_ms=900.0, more={"look_up": 30.0})
    )
    told = found.explanation
    row = found.row("first content")
    assert row is not None
    assert "no difference seen" == row.word
    assert told.most is not None
    assert ("look_up", "", None) == (told.most.name, told.of, told.share)
    assert any("that a user waits longer" in line for line in found.not_proved)
    assert any("varies too much to show" in line for line in telling.lines(found))


def test_of_two_parts_of_one_size_the_first_on_the_way_is_named_and_the_other_beside_it() -> None:
    found = sides(more={"look_up": 30.0, "after t6": 30.1}).explanation
    assert found.most is not None
    assert found.also is not None
    assert ("look_up", "after t6") == (found.most.name, found.also.name)


def test_a_part_that_is_sure_and_tiny_is_not_named() -> None:
    found = sides(more={"admit": 1.0}).explanation
    assert ["admit"] == [part.name for part in found.parts if part.seen]
    assert found.most is None


def test_too_few_blocks_name_nothing_and_say_so() -> None:
    few = {"blocks": 7, "drift_seed": 9}
    found = pair(Making(seed=1, **few), Making(seed=2, **few, more={"look_up": 50.0}))  # type: ignore[arg-type]
    assert (None, NOT_ENOUGH) == (found.explanation.most, found.explanation.why_not)
    assert any("7 blocks are too few" in line for line in found.not_proved)


def test_nothing_is_named_without_the_edges_record() -> None:
    found = sides(more={"look_up": 25.0}, known=False)
    assert (None, NO_RECORDS) == (found.explanation.most, found.explanation.why_not)
    row = found.row("first content")
    assert row is not None
    assert "slower" == row.word
    assert any("permission trace" in line for line in found.not_proved)


@pytest.mark.parametrize("part", ["engine queue", "engine first token", "unattributed"])
def test_an_engine_that_tells_nothing_leaves_it_unattributed(part: str) -> None:
    found = pair(
        Making(seed=1, drift_seed=9, told=False),
        Making(seed=2, drift_seed=9, told=False, more={part: 25.0}),
    )
    assert found.explanation.most is not None
    assert "unattributed" == found.explanation.most.name
    assert not {"engine queue", "engine first token"} & {p.name for p in found.explanation.parts}


def test_one_side_that_tells_nothing_takes_the_other_with_it() -> None:
    found = pair(
        Making(seed=1, drift_seed=9),
        Making(seed=2, drift_seed=9, told=False, more={"engine first token": 25.0}),
    )
    assert found.explanation.most is not None
    assert "unattributed" == found.explanation.most.name


def test_a_slow_link_is_never_called_one() -> None:
    found = sides(more={"unattributed": 40.0})
    assert found.explanation.most is not None
    assert "unattributed" == found.explanation.most.name
    assert any("that it is the network" in line for line in found.not_proved)
    said = str(found.as_dict()["explanation"])
    assert "network" not in said
    assert "link" not in said


def parts_of(run: Run) -> list[dict[str, float]]:
    split = stages.splits(run.good)
    return [part for each in run.good if (part := stages.parts(each, split)) is not None]


@pytest.mark.parametrize("told", [True, False])
def test_parts_add_up_to_what_the_client_waited(told: bool) -> None:
    run = made(Making(told=told))
    for sample, part in zip(run.good, parts_of(run), strict=True):
        assert sample.end_to_end_ms == pytest.approx(sum(part.values()))
        first = sum(v for name, v in part.items() if not stages.after_first(name))
        assert sample.first_content_ms == pytest.approx(first)


def test_parts_stand_in_the_order_of_the_way() -> None:
    names = [part.name for part in sides().explanation.parts]
    assert list(PARTS) == names


def test_a_longer_prompt_is_evidence_and_no_proof() -> None:
    found = sides(
        more={"engine first token": 25.0},
        input_tokens=68,
        labels={"template_version": "doubled@1:bbbb"},
    )
    assert any("input tokens 34 → 68 (+100%)" in line for line in found.evidence)
    assert any("template version changed" in line for line in found.evidence)
    assert any("what made the engine take longer" in line for line in found.not_proved)


def test_runs_that_were_not_measured_in_turns_prove_no_cause() -> None:
    found = compared(made(Making(seed=1)), made(Making(seed=2)), Options(draws=300))
    assert not found.paired
    assert any("not measured in turns" in line for line in found.not_proved)
