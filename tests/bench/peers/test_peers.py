"""The peers' tables and the interval that the generators are compared by."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from scipy import stats

from bench.peers import generators, tables
from bench.peers.generators import Interval
from bench.report import machine


def row(part: str, target: str, **figures: Any) -> dict[str, Any]:
    fixed = {"part": part, "target": target, "streams": 8, "n": 200, "error_rate": 0.0}
    return {**fixed, **figures}


def test_ratios_stand_beside_the_peers_figures_of_as_many_streams() -> None:
    rows = [
        row("paced", "edge", added_p50_ms=3.0, added_p99_ms=20.0),
        row("paced", "vllm-router", added_p50_ms=1.5, added_p99_ms=10.0),
        row("saturation", "edge", streams_a_s=300.0),
        row("saturation", "vllm-router", streams_a_s=600.0),
        row("saturation", "litellm", streams_a_s=30.0),
    ]
    found = tables.with_ratios(rows)
    assert (2.0, 2.0) == (
        found[0]["added_p50_ms_of_vllm-router"],
        found[0]["added_p99_ms_of_vllm-router"],
    )
    assert found[0]["added_p50_ms_of_litellm"] is None
    assert (0.5, 10.0) == (
        found[2]["streams_a_s_of_vllm-router"],
        found[2]["streams_a_s_of_litellm"],
    )


def test_there_is_no_ratio_to_a_peer_that_added_nothing() -> None:
    rows = [
        row("paced", "edge", added_p50_ms=3.0, added_p99_ms=20.0),
        row("paced", "vllm-router", added_p50_ms=0.0, added_p99_ms=-2.5),
    ]
    found = tables.with_ratios(rows)[0]
    assert (None, None) == (
        found["added_p50_ms_of_vllm-router"],
        found["added_p99_ms_of_vllm-router"],
    )


def test_a_peer_that_is_missing_is_named_and_its_figures_are_dashes() -> None:
    found = {
        "machine": machine(),
        "effort": {"rounds": 1, "seconds": 1.0},
        "missing": {"litellm": "not installed"},
        "rows": tables.with_ratios([row("saturation", "edge", streams_a_s=300.0)]),
    }
    text = tables.markdown(found)
    assert "Not available: litellm (not installed)." in text
    assert "| 300.00 |" in " ".join(text.split())
    assert "|                          - |" in text


def test_the_interval_is_scipys_of_the_mean_log_ratio() -> None:
    pairs = [(50.0 + n % 3, 51.0 - n % 2) for n in range(10)]
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    low, high = stats.t.interval(0.95, 9, loc=statistics.fmean(logs), scale=stats.sem(logs))
    found = generators.interval(pairs)
    assert (math.exp(low), math.exp(high)) == pytest.approx((found.low, found.high))
    assert found.low < found.ratio < found.high


@pytest.mark.parametrize(
    ("low", "high", "agrees"), [(0.96, 1.04, True), (0.94, 1.0, False), (1.0, 1.06, False)]
)
def test_generators_agree_when_the_whole_interval_is_within_a_twentieth(
    low: float, high: float, agrees: bool
) -> None:
    assert agrees == Interval(1.0, low, high).agrees
