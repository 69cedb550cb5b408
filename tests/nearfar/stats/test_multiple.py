"""Holm's correction against the closed test that it is a short cut of."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfar.stats.multiple import holm


def closed(p_values: list[float]) -> list[float]:
    """A hypothesis is rejected when every intersection with it is, each by Bonferroni."""
    found = []
    everything = range(len(p_values))
    for at in everything:
        worst = 0.0
        for size in range(1, len(p_values) + 1):
            for chosen in combinations(everything, size):
                if at in chosen:
                    worst = max(worst, min(1.0, size * min(p_values[i] for i in chosen)))
        found.append(worst)
    return found


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_it_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    assert closed(p_values) == pytest.approx(holm(p_values))


def test_it_is_worked_out_by_hand() -> None:
    assert (0.03, 0.06, 0.06, 0.02) == pytest.approx(holm([0.01, 0.04, 0.03, 0.005]))


def test_none_and_one_are_left_as_they_are() -> None:
    assert () == holm([])
    assert (0.2,) == holm([0.2])
