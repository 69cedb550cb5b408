from __future__ import annotations

import statistics

import numpy as np
import pytest
from scipy import stats

from nearfar.placement.spread import INTERVAL_NEEDS, Spread, interval_rank, milliseconds, shown


@pytest.mark.parametrize("n", range(1, 120))
def test_the_interval_of_the_median_is_the_widest_that_the_binomial_allows(n: int) -> None:
    rank = interval_rank(n)
    outside = [2 * stats.binom.cdf(r - 1, n, 0.5) for r in range(1, n // 2 + 2)]
    if rank is None:
        assert n < INTERVAL_NEEDS
        assert outside[0] > 0.05
    else:
        assert outside[rank - 1] <= 0.05 < outside[rank]


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    drawn, held, rounds = np.random.default_rng(5), 0, 2000
    for _ in range(rounds):
        spread = Spread.of(map(float, drawn.lognormal(0, 1, 15)))
        assert spread is not None
        assert spread.low is not None
        assert spread.high is not None
        held += spread.low <= 1.0 <= spread.high
    # 96.5% for n = 15; four standard errors around it.
    assert 0.948 < held / rounds < 0.982


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 40])
def test_the_median_is_the_one_of_the_standard_library(n: int) -> None:
    values = list(map(float, np.random.default_rng(n).random(n)))
    spread = Spread.of(values)
    assert spread is not None
    assert statistics.median(values) == spread.median
    assert (n, min(values), max(values)) == (spread.n, spread.least, spread.most)


def test_too_few_values_carry_no_interval_and_none_carry_nothing() -> None:
    few = Spread.of([1, 2, 3, 4, 5])
    assert few is not None
    assert (None, None) == (few.low, few.high)
    assert Spread.of([]) is None
    assert "not available" == shown(None)
    assert "3.00 ms (1.00 ms to 5.00 ms seen, n=5)" == shown(few)
    assert "3.50 ms (95% 1.00 ms to 6.00 ms, n=6)" == shown(Spread.of([1, 2, 3, 4, 5, 6]))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "not available"), (0.0, "0.00 ms"), (9.994, "9.99 ms"), (12.34, "12.3 ms"),
     (999.0, "999.0 ms"), (1234, "1.23 s"), (40742.8, "40.7 s")],
)  # fmt: skip
def test_a_duration_has_the_digits_it_deserves(value: float | None, text: str) -> None:
    assert text == milliseconds(value)
