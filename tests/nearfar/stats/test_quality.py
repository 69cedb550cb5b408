"""Answers beside latencies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.made_run import Making, made
from nearfar.runs import Run, Sample
from nearfar.stats.comparison import Options, compared
from nearfar.stats.quality import Quality, exact, normalised, normalised_match


def sample(**changes: object) -> Sample:
    (first, *_) = made(Making(right=1.0)).good
    return replace(first, **changes)  # type: ignore[arg-type]


def grade(before: Run, after: Run, margin: float = 0.05) -> Quality:
    found = compared(before, after, Options(draws=500, margin=margin)).quality
    return next(each for each in found if each.name == "exact match")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Oslo.", "oslo"),
        ("The  answer", "answer"),
        ("  42 \n", "42"),
        ("“Oslo”!", "Oslo"),
        ("ＯＳＬＯ", "Oslo"),
        ("3.5 %", "3.5%"),
    ],
)
def test_normalised_answers_match(answer: str, expected: str) -> None:
    assert 1.0 == normalised_match(sample(answer=answer, expected=expected))


@pytest.mark.parametrize(
    ("answer", "expected"), [("Bergen", "Oslo"), ("Oslo is it", "Oslo"), ("15 mg", "50 mg")]
)
def test_other_answers_do_not(answer: str, expected: str) -> None:
    assert 0.0 == normalised_match(sample(answer=answer, expected=expected))


def test_words_that_begin_with_an_article_keep_it() -> None:
    assert "theatre anode" == normalised("The Theatre, an anode")


def test_an_exact_match_needs_no_text_but_its_digest() -> None:
    right, wrong = sample(answer=None), sample(answer=None, answer_sha256="0" * 64)
    assert (1.0, 0.0) == (exact(right), exact(wrong))
    assert normalised_match(right) is None


def test_nothing_is_graded_where_no_answer_is_expected() -> None:
    assert exact(sample(expected=None)) is None
    assert () == compared(made(), made(Making(seed=1)), Options(draws=300)).quality


def test_equal_answers_are_shown_to_be_not_worse() -> None:
    found = grade(made(Making(seed=1, right=1.0)), made(Making(seed=2, right=1.0)))
    assert "not worse" == found.word
    assert found.interval is not None
    assert found.interval[0] < 0, "blocks that are all right say nothing of what was not asked"


def test_worse_answers_are_called_worse() -> None:
    assert "worse" == grade(made(Making(seed=1, right=0.95)), made(Making(seed=2, right=0.5))).word


def test_too_few_answers_show_nothing() -> None:
    small = Making(seed=1, right=0.9, blocks=10, per_block=2)
    assert "not shown" == grade(made(small), made(replace(small, seed=2))).word
