"""Each arrival process is the one that it is called: its rate, its gaps, its bursts, its growth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nearfar.errors import BadInput
from nearfar.load.arrivals import Arrivals, Process, traced

MANY = 20_000


def drawn(process: Process, rate: float = 5.0, **more: object) -> np.ndarray:
    bounds = {"requests": MANY} | more
    return np.array(list(Arrivals(process=process, rate_per_s=rate, **bounds).instants()))  # type: ignore[arg-type]


def test_gaps_of_a_poisson_process_are_exponential_and_independent() -> None:
    gaps = np.diff(drawn("poisson"))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 5)).pvalue > 0.01
    assert 0.0 == pytest.approx(float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]), abs=0.03)


def test_counts_of_a_poisson_process_are_spread_as_widely_as_they_are_many() -> None:
    at = drawn("poisson")
    counts = np.histogram(at, bins=np.arange(0, at[-1] - 1, 1))[0]
    assert 5.0 == pytest.approx(counts.mean(), rel=0.05)
    assert 1.0 == pytest.approx(counts.var() / counts.mean(), rel=0.1)


def test_a_constant_process_has_one_gap() -> None:
    assert [0.0, 0.25, 0.5, 0.75] == list(
        Arrivals(process="constant", rate_per_s=4, requests=4).instants()
    )
    assert 0.2 * (MANY - 1) == pytest.approx(drawn("constant")[-1])


def test_bursts_come_at_once_and_keep_the_mean_rate() -> None:
    at = drawn("burst", burst_size=10)
    times, sizes = np.unique(at, return_counts=True)
    assert {10} == set(sizes.tolist())
    assert stats.kstest(np.diff(times), "expon", args=(0, 2.0)).pvalue > 0.01


@pytest.mark.parametrize(("low", "high"), [(2.0, 40.0), (40.0, 2.0), (7.0, 7.0)])
def test_a_ramp_is_a_poisson_process_in_its_own_time(low: float, high: float) -> None:
    length = 400.0
    at = drawn("ramp", low, requests=None, duration_s=length, ramp_to_per_s=high)
    # The expected count until each instant turns the process into one of rate 1.
    own = low * at + (high - low) * at**2 / (2 * length)
    assert stats.kstest(np.diff(own), "expon").pvalue > 0.01
    assert (low + high) / 2 * length == pytest.approx(len(at), rel=0.05)
    assert at[-1] < length


@given(
    st.sampled_from(["poisson", "constant", "burst", "ramp"]),
    st.floats(0.1, 50),
    st.integers(1, 50),
    st.integers(0, 5),
)
def test_instants_are_in_order_bounded_and_the_same_for_the_same_seed(
    process: Process, rate: float, count: int, seed: int
) -> None:
    arrivals = Arrivals(
        process=process,
        rate_per_s=rate,
        requests=count,
        duration_s=5.0,
        burst_size=3,
        ramp_to_per_s=2 * rate,
        seed=seed,
    )
    at = list(arrivals.instants())
    assert at == sorted(at)
    assert at == list(arrivals.instants())
    assert len(at) <= count
    assert all(0 <= each < 5.0 for each in at)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_per_s": 0.0, "requests": 1},
        {"rate_per_s": math.inf, "requests": 1},
        {"rate_per_s": 1.0},
        {"process": "ramp", "rate_per_s": 1.0, "duration_s": 2.0},
        {"process": "ramp", "rate_per_s": 1.0, "ramp_to_per_s": 2.0, "requests": 3},
        {"process": "burst", "rate_per_s": 1.0, "requests": 3, "burst_size": 0},
    ],
)
def test_a_process_that_cannot_be_is_bad_input(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Arrivals(**{"process": "poisson", **wrong})  # type: ignore[arg-type]


def test_a_trace_begins_at_zero_and_can_be_played_faster() -> None:
    assert (0.0, 0.5, 2.0) == traced([10.0, 14.0, 11.0], speed=2.0)
    assert () == traced([])
