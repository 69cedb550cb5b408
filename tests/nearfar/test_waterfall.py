"""The waterfall, drawn from sample records."""

from __future__ import annotations

import itertools

import pytest

from fakes import sample
from nearfar import waterfall
from nearfar.record import ClientLane, Record, merged

LANE = ClientLane(connected_ms=1.0, first_byte_ms=5.0, first_content_ms=54.0, end_ms=202.0)


def miss() -> Record:
    return merged(sample.miss(), LANE, secure=False)


def hit() -> Record:
    return merged(sample.hit(), LANE, secure=False)


def row(record: Record, label: str) -> str:
    (found,) = [line for line in waterfall.lines(record) if line.strip().startswith(f"{label} ")]
    return found


def test_three_lanes_are_drawn_in_order() -> None:
    lanes = [line.split()[0] for line in waterfall.lines(miss()) if " lane " in line]
    assert ["client", "edge", "engine"] == lanes


def test_every_stage_is_drawn_with_its_duration() -> None:
    for stage, duration_ms in sample.MISS["stages"].items():
        assert row(miss(), stage).endswith(f" {duration_ms:.1f} ms")


def test_the_edges_stages_follow_each_other_without_gap() -> None:
    bars = list(waterfall.edge_bars(miss()))
    for earlier, later in itertools.pairwise(bars):
        assert earlier.duration_ms is not None
        assert pytest.approx(later.start_ms) == earlier.start_ms + earlier.duration_ms


def test_each_lane_begins_at_its_own_zero() -> None:
    """Nothing is shifted by, or subtracted from, what another clock said."""
    for bars in (waterfall.client_bars, waterfall.edge_bars, waterfall.engine_bars):
        assert 0.0 == next(iter(bars(miss()))).start_ms


def test_changing_one_lane_changes_no_figure_of_another() -> None:
    document = sample.miss()
    document["engine"]["queue_time_ms"] = 900.0
    changed = merged(document, LANE, secure=False)
    for label in ("authenticate", "model_call", "until first content", "unattributed"):
        assert row(miss(), label).split()[-2:] == row(changed, label).split()[-2:]


def test_what_was_not_observed_says_so_and_why() -> None:
    assert "not available: there is no retrieval" in row(miss(), "retrieval_duration")
    assert "not available: the endpoint has no TLS" in row(miss(), "TLS")
    assert "not available: the model server did not give it" in row(
        miss(), "engine tokens_per_second"
    )


def test_a_hit_has_no_engine_lane_and_says_why() -> None:
    lines = waterfall.lines(hit())
    assert any("engine" in line and "the model server was not asked" in line for line in lines)


def test_a_null_is_never_drawn_as_zero() -> None:
    document = sample.miss()
    document["derived"] = dict.fromkeys(document["derived"])
    lines = waterfall.lines(merged(document, ClientLane(), secure=True))
    measures = lines[lines.index("measures") + 1 : -2]
    assert 5 == len(measures)
    assert all("not available: " in line for line in measures)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_bars_fit_the_terminal(width: int) -> None:
    bars = [line for line in waterfall.lines(miss(), width) if "█" in line]
    assert all(len(line) <= width for line in bars)


def test_a_bar_too_short_for_a_character_is_still_seen() -> None:
    assert "█" in row(miss(), "authenticate")


def test_longer_durations_have_longer_bars() -> None:
    lengths = [row(miss(), stage).count("█") for stage in ("look_up", "model_call", "stream")]
    assert sorted(lengths) == lengths
    assert lengths[0] < lengths[1] < lengths[2]


def test_a_record_without_any_time_is_drawn() -> None:
    document = sample.hit() | {"stages": {}}
    assert waterfall.lines(merged(document, ClientLane(), secure=True))


def test_the_reason_of_what_holds_a_field_is_its_reason_too() -> None:
    assert "the model server was not asked" == hit().why_not("engine.queue_time_ms")
