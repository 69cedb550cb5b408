"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearfar.duration import MAX_S, parse


@pytest.mark.parametrize(
    ("seconds", "text"), [(30, "30s"), (900, "15m"), (86_400, "24h"), (7_776_000, "90d"), (0, "0s")]
)
def test_a_duration_is_read_in_its_unit(seconds: int, text: str) -> None:
    assert seconds == parse(text)


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1.5h", "90 d", "5y", "9999999d", "٣d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse(text)


def test_a_duration_of_more_than_ten_years_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than ten years"):
        parse("3651d")


@given(st.text(max_size=12))
def test_any_text_is_read_within_bounds_or_refused(text: str) -> None:
    try:
        seconds = parse(text)
    except ValueError:
        return
    assert 0 <= seconds <= MAX_S
