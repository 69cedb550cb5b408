"""A mix that changed is told, and does not pass for an improvement."""

from __future__ import annotations

import pytest

from fakes.made_run import Making, made
from nearfar.stats import mix
from nearfar.stats.comparison import Options, compared
from nearfar.stats.mix import Breakdown, token_range
from nearfar.stats.side import sides

SLOW = {"long": 40.0}


def broken(before: Making, after: Making, dimension: str = "category") -> Breakdown:
    found = mix.breakdown(
        dimension, sides(made(before), made(after)), lambda s: s.first_content_ms, draws=500
    )
    assert found is not None
    return found


def test_a_new_mix_is_told_with_the_difference_that_is_not_the_mixes() -> None:
    found = broken(
        Making(seed=1, categories=("short", "long"), category_ms=SLOW),
        Making(seed=2, categories=("short", "long", "long", "long"), category_ms=SLOW),
    )
    assert found.changed
    assert 0.25 == pytest.approx(found.change, abs=0.01)
    assert found.adjusted is not None
    low, high = found.adjusted.interval()
    assert low < 0 < high
    both = compared(
        made(Making(seed=1, categories=("short", "long"), category_ms=SLOW)),
        made(Making(seed=2, categories=("short", "long", "long", "long"), category_ms=SLOW)),
        Options(draws=500),
    )
    plain = both.row("first content")
    assert plain is not None
    assert "slower" == plain.word
    assert any("mix by category changed" in each for each in both.warnings)


def test_the_same_mix_is_no_new_one() -> None:
    found = broken(
        Making(seed=1, categories=("a", "b", "c")), Making(seed=2, categories=("c", "a", "b"))
    )
    assert not found.changed
    assert found.adjusted is None
    assert {"a", "b", "c"} == {group.name for group in found.groups}


def test_another_version_is_a_change_and_no_mix() -> None:
    found = broken(
        Making(seed=1), Making(seed=2, labels={"service_version": "0.2.0"}), "service version"
    )
    assert found.swapped
    assert not found.changed


def test_kinds_on_one_side_alone_are_left_out_and_named() -> None:
    found = broken(
        Making(seed=1, categories=("a", "b", "only before")),
        Making(seed=2, categories=("a", "b", "only after")),
    )
    assert found.changed
    assert ("only after", "only before") == found.left_out
    assert [None, None] == [g.difference for g in found.groups if g.name in found.left_out]
    assert found.adjusted is not None


def test_one_kind_alone_is_no_breakdown() -> None:
    both = sides(made(Making(seed=1)), made(Making(seed=2)))
    assert mix.breakdown("region", both, lambda s: s.first_content_ms, draws=100) is None


@pytest.mark.parametrize(
    ("tokens", "name"),
    [(0, "0-127"), (127, "0-127"), (128, "128-511"), (40_000, "32768 and more"), (None, "unknown")],
)
def test_ranges_of_tokens_have_names(tokens: int | None, name: str) -> None:
    assert name == token_range(tokens)


@pytest.mark.parametrize("dimension", mix.DIMENSIONS)
def test_every_dimension_is_taken_from_a_real_sample(dimension: str) -> None:
    (sample, *_) = made(Making(categories=("a",))).good
    assert mix.UNKNOWN != mix.DIMENSIONS[dimension](sample)


def test_chance_alone_seldom_changes_the_mix() -> None:
    """Categories dealt at random, one seed after the other: about one in a hundred is told."""
    import random

    told = 0
    for seed in range(40):
        deal = random.Random(seed)  # noqa: S311 - no secret
        one, two = (tuple(deal.choices("ab", k=200)) for _ in range(2))
        told += broken(Making(seed=seed, categories=one), Making(seed=99, categories=two)).changed
    assert told <= 2
