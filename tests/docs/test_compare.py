"""docs/compare.md and the code say the same."""

from __future__ import annotations

from typing import get_args

from docs import page
from nearfar.commands import compare
from nearfar.stats import blocks, bootstrap, explanation, mix, quality, stages, verdict
from nearfar.stats.likeness import ASPECTS


def test_every_verdict_is_defined_and_no_other() -> None:
    words = {word for cell, _ in page.table("compare.md", "Verdicts") for word in cell.split(", ")}
    assert set(get_args(verdict.Word)) == words


def test_every_word_on_answers_is_defined_and_no_other() -> None:
    assert set(get_args(quality.Word)) == {word for word, _ in page.table("compare.md", "Answers")}


def test_every_part_of_the_way_is_described() -> None:
    text = page.section("compare.md", "Parts of the way")
    assert [] == [name for name in stages.MEANING if f"`{name}`" not in text]
    named = [cell for cell, _ in page.table("compare.md", "Parts of the way")]
    assert set(stages.MEANING) <= set(named)


def test_every_aspect_that_has_to_be_equal_is_named() -> None:
    assert list(ASPECTS) == [name for name, _ in page.table("compare.md", "Like with like")]


def test_every_dimension_is_named() -> None:
    text = " ".join(page.section("compare.md", "Like with like").split())
    assert [] == [name for name in mix.DIMENSIONS if name not in text]


def test_numbers_are_those_of_the_code() -> None:
    text = " ".join(page.text("compare.md").split())
    assert f"fewer than {blocks.LEAST_BLOCKS} blocks" in text
    assert f"{blocks.CUT_BLOCKS} at most" in text
    assert f"({bootstrap.DRAWS:,} draws)" in text
    assert f"(`--margin`, {quality.MARGIN:g}" in text
    assert f"by {explanation.LEAST_WORTH:.0%} of the whole wait" in text
    assert f"(by {mix.LEAST_CHANGE:.0%} of all requests" in text
    assert f"fewer than {mix.LEAST_REQUESTS} requests on a side" in text
    rounds = next(p for p in compare.command.params if p.name == "rounds")
    assert f"(`--rounds`, {rounds.default})" in text


def test_what_ends_with_code_1_is_named() -> None:
    text = page.section("compare.md", "Exit codes")
    assert [] == [word for word in compare.FAILING if word not in text]
