"""Intervals of shares against scipy and published figures; failures stand beside latencies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from fakes.made_run import Making, made
from nearfar.errors import BadInput
from nearfar.stats import comparison, telling
from nearfar.stats.failures import compared, newcombe, wilson


@given(st.integers(1, 500), st.data())
def test_wilsons_interval_is_scipys(count: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, count))
    expected = scipy_stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert (expected.low, expected.high) == pytest.approx(wilson(hits, count), abs=1e-9)


def test_newcombes_interval_is_the_published_one() -> None:
    """56 of 70 against 48 of 80: 0.0524 to 0.3339 (Newcombe 1998, table II, method 10)."""
    assert (0.0524, 0.3339) == pytest.approx(newcombe((48, 80), (56, 70)), abs=5e-5)


def test_nothing_is_known_of_nothing() -> None:
    assert (-1.0, 1.0) == newcombe((0, 0), (1, 10))


def test_more_failures_are_warned_of_and_leave_latency_alone() -> None:
    calm, failing = made(Making(seed=1)), made(Making(seed=1, failing=0.2))
    found = compared(calm, failing)
    assert 0 == found.failed[0]
    assert found.failed[1] > 20
    assert found.differ
    assert (("upstream_busy", found.failed[1]),) == found.kinds[1]
    whole = comparison.compared(calm, failing, comparison.Options(draws=500))
    assert any("error rate changed" in warning for warning in whole.warnings)
    row = whole.row("first content")
    assert row is not None
    assert 200 - found.failed[1] == row.requests[1]
    assert any("failed requests" in line and "changed" in line for line in telling.lines(whole))


def test_a_run_in_which_all_failed_is_told_with_its_reason() -> None:
    with pytest.raises(BadInput, match="after holds no whole answer") as caught:
        comparison.compared(made(), made(Making(failing=1.0)), comparison.Options())
    assert "upstream_busy" in caught.value.next_step
