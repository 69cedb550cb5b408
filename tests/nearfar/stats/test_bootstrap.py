"""The bootstrap against closed forms and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from nearfar.stats.blocks import LEAST_BLOCKS, Cells, cells
from nearfar.stats.bootstrap import difference

BLOCKS = 30
EACH = 10


def drawn(seed: int, mean: float = 100.0, blocks: int = BLOCKS) -> Cells:
    """Blocks of equal size whose sums are normal."""
    rng = np.random.default_rng(seed)
    return Cells(rng.normal(mean, 5.0, (blocks, 1)) * EACH, np.full((blocks, 1), float(EACH)))


def means(side: Cells) -> np.ndarray:
    return (side.sums / side.counts)[:, 0]


def test_means_and_difference_are_those_of_all_requests() -> None:
    before = cells([1.0, 2.0, 3.0, 10.0], [0, 0, 0, 1], shape=(2, 1))
    after = cells([5.0, 5.0], [0, 1], shape=(2, 1))
    found = difference(before, after, paired=False)
    assert (4.0, 5.0, 1.0) == (found.before, found.after, found.value)


def test_the_standard_error_is_the_closed_form_of_equal_blocks() -> None:
    before, after = drawn(1), drawn(2)
    one, two = means(before), means(after)
    alone = np.sqrt(one.var(ddof=1) / BLOCKS + two.var(ddof=1) / BLOCKS)
    together = np.sqrt((two - one).var(ddof=1) / BLOCKS)
    assert alone == pytest.approx(difference(before, after, paired=False).se)
    assert together == pytest.approx(difference(before, after, paired=True).se)


def test_the_standard_error_of_unequal_blocks_is_the_linearised_ratio() -> None:
    """Cochran, Sampling Techniques, section 6.4: over the blocks' residuals."""
    sums, counts = np.array([10.0, 44.0, 9.0, 30.0]), np.array([2.0, 8.0, 3.0, 5.0])
    side = Cells(sums[:, None], counts[:, None])
    ratio = sums.sum() / counts.sum()
    expected = np.sqrt(((sums - ratio * counts) ** 2).sum() / (4 * 3)) / counts.mean()
    nothing = Cells(np.zeros((4, 1)), np.ones((4, 1)))
    assert expected == pytest.approx(difference(nothing, side, paired=False).se)


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_of_normal_blocks_is_students(paired: bool) -> None:
    before, after = drawn(1), drawn(2, 103.0)
    test = scipy_stats.ttest_rel if paired else scipy_stats.ttest_ind
    expected = test(means(after), means(before)).confidence_interval(0.95)
    low, high = difference(before, after, paired=paired, draws=20_000).interval()
    width = expected.high - expected.low
    assert expected.low == pytest.approx(low, abs=0.06 * width)
    assert expected.high == pytest.approx(high, abs=0.06 * width)


@pytest.mark.parametrize("shift", [0.0, 1.5, 3.0])
def test_the_p_value_of_normal_blocks_is_students(shift: float) -> None:
    before, after = drawn(5), drawn(6, 100.0 + shift)
    expected = scipy_stats.ttest_ind(means(after), means(before)).pvalue
    found = difference(before, after, paired=False, draws=20_000).p
    assert expected == pytest.approx(found, abs=0.02)


def test_the_smallest_difference_is_seen_in_eight_of_ten_comparisons() -> None:
    first = difference(drawn(100), drawn(200), paired=False)
    shift = first.smallest_seen(0.05)
    seen = [
        difference(drawn(1000 + n), drawn(5000 + n, 100.0 + shift), paired=False, draws=500).p
        for n in range(300)
    ]
    assert 0.8 == pytest.approx(np.mean(np.array(seen) <= 0.05), abs=0.1)


def test_pairs_that_drift_together_are_told_apart_better_than_by_themselves() -> None:
    rng = np.random.default_rng(3)
    drift = rng.gamma(2.0, 20.0, (BLOCKS, 1)) * EACH
    before, after = drawn(1), drawn(2, 105.0)
    before, after = (Cells(side.sums + drift, side.counts) for side in (before, after))
    assert difference(before, after, paired=True).p < 0.01
    assert difference(before, after, paired=False).p > 0.05


def test_blocks_without_answers_on_a_side_are_left_out_of_pairs() -> None:
    before, after = drawn(1), drawn(2)
    after.sums[3], after.counts[3] = 0.0, 0.0
    assert BLOCKS - 1 == difference(before, after, paired=True).blocks


def test_pairs_without_a_block_in_common_give_no_interval() -> None:
    before, after = drawn(1), drawn(2)
    before.sums[::2], before.counts[::2] = 0.0, 0.0
    after.sums[1::2], after.counts[1::2] = 0.0, 0.0
    found = difference(before, after, paired=True)
    assert (0, False) == (found.blocks, found.known)
    assert after.mean - before.mean == pytest.approx(found.value)


@pytest.mark.parametrize("paired", [True, False])
def test_too_few_blocks_give_no_interval(paired: bool) -> None:
    few = difference(
        drawn(1, blocks=LEAST_BLOCKS - 1), drawn(2, blocks=LEAST_BLOCKS - 1), paired=paired
    )
    assert not few.known
    assert 1.0 == few.p
    enough = difference(drawn(1, blocks=LEAST_BLOCKS), drawn(2, blocks=LEAST_BLOCKS), paired=paired)
    assert enough.known


def test_what_never_varies_has_an_interval_of_one_point() -> None:
    same = Cells(np.full((BLOCKS, 1), 34.0 * EACH), np.full((BLOCKS, 1), float(EACH)))
    twice = Cells(same.sums * 2, same.counts)
    changed = difference(same, twice, paired=True)
    assert (34.0, 34.0) == changed.interval()
    assert changed.p < 0.001
    assert 1.0 == difference(same, same, paired=True).p


def test_weights_give_the_standardised_difference() -> None:
    """Two kinds, +1 and +3 ms, weighed 3 to 1; the plain difference is of the mix."""
    rng = np.random.default_rng(0)
    before = Cells(np.empty((BLOCKS, 2)), np.tile([9.0, 1.0], (BLOCKS, 1)))
    after = Cells(np.empty((BLOCKS, 2)), np.tile([1.0, 9.0], (BLOCKS, 1)))
    noise = rng.normal(0, 0.01, (2, BLOCKS, 2))
    before.sums[:] = (np.array([10.0, 50.0]) + noise[0]) * before.counts
    after.sums[:] = (np.array([11.0, 53.0]) + noise[1]) * after.counts
    plain = difference(before, after, paired=False)
    found = difference(before, after, paired=False, weights=np.array([0.75, 0.25]))
    assert 34.8 == pytest.approx(plain.value, abs=0.1)
    assert 1.5 == pytest.approx(found.value, abs=0.01)
    low, high = found.interval()
    assert low < 1.5 < high


def test_paired_sides_of_unequal_length_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same blocks"):
        difference(drawn(1, blocks=9), drawn(2, blocks=10), paired=True)


floats = st.floats(-1e3, 1e3, allow_nan=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(floats, floats), min_size=8, max_size=20), floats, st.floats(0.1, 100))
def test_shifting_scaling_and_swapping_do_what_they_do_to_a_difference(
    values: list[tuple[float, float]], shift: float, scale: float
) -> None:
    sums = np.array(values)
    ones = np.ones((len(values), 1))
    before, after = Cells(sums[:, :1], ones), Cells(sums[:, 1:], ones)
    plain = difference(before, after, paired=True, draws=200)
    moved = difference(before, Cells(after.sums + shift, ones), paired=True, draws=200)
    bigger = difference(
        Cells(before.sums * scale, ones), Cells(after.sums * scale, ones), paired=True, draws=200
    )
    swapped = difference(after, before, paired=True, draws=200)
    assert plain.value + shift == pytest.approx(moved.value, abs=1e-6)
    assert plain.se == pytest.approx(moved.se, abs=1e-6)
    assert plain.value * scale == pytest.approx(bigger.value, rel=1e-6, abs=1e-6)
    assert -plain.value == pytest.approx(swapped.value, abs=1e-9)
    assert plain.p == pytest.approx(swapped.p)
