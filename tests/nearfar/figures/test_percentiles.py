"""Percentiles are those of numpy to a thousandth, and none that n does not carry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from nearfar.figures.percentiles import SHARES, Figure, carries, name_of

DRAWN = {
    "log-normal": np.random.default_rng(1).lognormal(4, 1, 5000),
    "uniform": np.random.default_rng(2).uniform(0, 3, 5000),
    "one value": np.full(1000, 12.5),
    "two far apart": np.array([1.0, 100_000.0] * 500),
}


@pytest.mark.parametrize("name", DRAWN)
def test_percentiles_are_numpys_to_a_thousandth(name: str) -> None:
    values = DRAWN[name]
    figure = Figure.of(values.tolist())
    for share in SHARES:
        expected = float(np.quantile(values, share, method="inverted_cdf"))
        assert expected == pytest.approx(figure.at(share), rel=1e-3, abs=1e-4)
    assert float(values.mean()) == pytest.approx(figure.mean)
    assert (float(values.min()), float(values.max())) == (figure.least, figure.most)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300))
def test_percentiles_of_any_values_are_numpys(values: Sequence[float]) -> None:
    figure = Figure.of(values)
    for share in SHARES:
        if carries(len(values), share):
            expected = float(np.quantile(values, share, method="inverted_cdf"))
            assert expected == pytest.approx(figure.at(share), rel=1.1e-3, abs=1e-4)
        else:
            assert figure.at(share) is None


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("n", "last"), [(1, None), (2, 0.5), (9, 0.5), (10, 0.9), (20, 0.95), (99, 0.95)]
)
def test_no_percentile_is_given_that_n_does_not_carry(n: int, last: float | None) -> None:
    figure = Figure.of(range(n))
    carried = [share for share in SHARES if figure.at(share) is not None]
    assert [share for share in SHARES if last is not None and share <= last] == carried
    assert n == figure.n


@pytest.mark.fault(19)
def test_the_99th_begins_at_a_hundred_samples_and_the_999th_at_a_thousand() -> None:
    assert [False, True, False, True] == [
        carries(99, 0.99),
        carries(100, 0.99),
        carries(999, 0.999),
        carries(1000, 0.999),
    ]


def test_nothing_seen_is_not_zero() -> None:
    figure = Figure.of([None, None])
    assert (0, None, None, None) == (figure.n, figure.mean, figure.least, figure.most)
    document = figure.document()
    assert document["p50"] is None
    assert "needs 2 samples, there are 0" == document["not_available"]["p50"]


def test_histograms_of_two_runs_can_be_added() -> None:
    low, high = Figure.of([1.0] * 100), Figure.of([50.0] * 300)
    both = HdrHistogram.decode(low.histogram)
    both.add(HdrHistogram.decode(high.histogram))
    assert 400 == both.get_total_count()
    assert 50.0 == pytest.approx(both.get_value_at_percentile(50) / 10_000, rel=1e-3)


def test_shares_have_names() -> None:
    assert ["p50", "p90", "p95", "p99", "p99.9"] == [name_of(share) for share in SHARES]
