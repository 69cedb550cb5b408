"""The judge finds a difference that is there, and none that is not."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.judge import AIM, FEATURES, TOGETHER, Timing, allowed, auc, judged

values = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def timings(seed: int, count: int, later_ms: float = 0.0, wider: float = 1.0) -> list[Timing]:
    """Answers with a long tail, as servers have them."""
    chance = random.Random(seed)  # noqa: S311 - a made-up machine
    found = []
    for _ in range(count):
        head_ms = chance.lognormvariate(1.0, 0.3) + later_ms
        gaps = [chance.expovariate(1.0) * wider for _ in range(4)]
        events = [head_ms + sum(gaps[: at + 1]) for at in range(4)]
        found.append(Timing(head_ms, events[0], tuple(events)))
    return found


@given(values, values)
def test_auc_is_the_share_of_pairs_that_are_in_order(one: list[int], other: list[int]) -> None:
    pairs = [(a < b) + (a == b) / 2 for a in one for b in other]
    assert math.isclose(sum(pairs) / len(pairs), auc(one, other))


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_differ_is_not_told_apart(seed: int) -> None:
    found = judged(timings(seed, 300), timings(seed + 100, 300))
    assert {*FEATURES, TOGETHER} == found.keys()
    assert all(abs(figure - 0.5) <= allowed(300) for figure in found.values()), found


def test_a_quarter_of_a_millisecond_in_three_is_found_by_a_thousand_pairs() -> None:
    found = judged(timings(1, 1000), timings(2, 1000, later_ms=0.25))
    assert found["first_byte_ms"] > 0.5 + AIM
    assert found[TOGETHER] > 0.5 + AIM


def test_a_difference_that_only_the_gaps_have_is_found_among_all_figures() -> None:
    found = judged(timings(1, 400), timings(2, 400, wider=1.6))
    assert abs(found["first_byte_ms"] - 0.5) <= allowed(400)
    assert found[TOGETHER] > 0.5 + allowed(400)


def test_what_is_quicker_in_one_figure_and_slower_in_another_is_found_by_both() -> None:
    """The sign of a single figure does not matter; the regression adds up what each knows."""
    one, other = timings(1, 400), timings(2, 400, later_ms=0.5, wider=0.8)
    found = judged(one, other)
    assert found[TOGETHER] > max(found[name] for name in FEATURES[:2])
    assert found["mean_gap_ms"] < 0.5


def test_the_bound_is_the_aim_at_a_thousand_pairs_and_wider_below() -> None:
    assert AIM == allowed(1000) == allowed(2000)
    assert 0.12 < allowed(150) < 0.13
