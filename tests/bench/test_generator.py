"""The generator's own error is what it says beyond the fake's own delay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import generator
from bench.generator import Error
from fakes.made_run import head
from nearfar.runs import Run, Sample


def error(rate: float, p50: float | None, failed: float = 0.0) -> Error:
    return Error(rate, 300, failed, p50, None, None, None, None, 0.5)


def test_the_limit_is_the_last_rate_before_the_first_that_is_not_within() -> None:
    good, bad = error(10, 0.2), error(50, 0.6)
    assert 10 == generator.limit([good, bad, error(100, 0.3)])
    assert generator.limit([bad]) is None
    assert generator.limit([error(10, 0.2, failed=0.1)]) is None
    assert generator.limit([error(10, None)]) is None
    assert "limit (error p50 below 0.5 ms): 10 requests a second" in generator.table([good, bad])


def test_the_error_is_measured_against_when_the_fake_really_sent(tmp_path: Path) -> None:
    """A bound that a busy machine keeps too; what it is at rest is measured by the recipe."""
    (found,) = generator.measured(tmp_path, [40.0], 40)
    assert (40, 0.0) == (found.n, found.error_rate)
    assert found.p50_ms is not None
    assert 0 < found.p50_ms < 20
    assert found.late_p50_ms is not None


def test_the_fakes_delays_are_taken_off() -> None:
    """Received 0.5 ms after it was sent, first content left 99 ms later: 100 ms were seen."""
    seen = {"chatcmpl-1": (10.0005, 10.0995)}
    asked: dict[str, Any] = {
        "i": 0,
        "sent_s": 1.0,
        "first_content_s": 1.1,
        "outcome": "ok",
        "prompt_id": "p",
    }
    samples = (Sample(request_id="chatcmpl-1", **asked), Sample(request_id="unknown", **asked))
    assert [1.0] == pytest.approx(generator.own_errors(Run(head(), samples), seen))
