"""A run is summed up from its good samples, with what failed beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import sample as streams
from fakes.script import Script, error_script
from fakes.upstream import UpstreamThread
from nearfar import runs
from nearfar.figures import summary, tables
from nearfar.figures.summary import Summary
from nearfar.runs import End, Failure, Objectives, Run, Sample, Usage

from ..load.asking import measured, plan

HEADER = runs.Header(
    run="r1",
    started_at="2026-11-30T12:00:00.000+00:00",
    nearfar="0.1.0",
    target=runs.TargetOf("http://127.0.0.1:3000", "mock"),
    load=runs.Load(process="poisson", rate_per_s=2.0, requests=2, seed=7),
    workload=runs.Workload(source="prompts", name="prompts.txt", requests=2),
    clock=runs.Clock("time.perf_counter", 1e-9),
)


def good(i: int = 0, **more: Any) -> Sample:
    """Due at i, sent 10 ms later, first content after 100 ms, five chunks in 400 ms."""
    fields: dict[str, Any] = {
        "i": i,
        "scheduled_s": float(i),
        "sent_s": i + 0.01,
        "headers_s": i + 0.02,
        "first_content_s": i + 0.11,
        "first_answer_s": i + 0.21,
        "last_content_s": i + 0.51,
        "end_s": i + 0.52,
        "gaps_ms": (100.0, 100.0, 100.0, 100.0),
        "status": 200,
        "outcome": "ok",
        "usage": Usage(9, 23),
        "prompt_id": "p",
    }
    return Sample(**(fields | more))


def bad(i: int = 0, outcome: Any = "failed", **more: Any) -> Sample:
    return good(i, outcome=outcome, usage=None, **more)


def of(*samples: Sample, **more: Any) -> Summary:
    end = End("2026-11-30T12:01:00.000+00:00", len(samples), "done")
    return summary.of(Run(replace(HEADER, **more), samples, end))


def figure(found: Summary, key: str) -> Any:
    return next(row.figure for row in found.rows if row.kind.key == key)


@pytest.mark.fault(20)
def test_tokens_and_tpot_come_from_usage_and_gaps_are_of_chunks() -> None:
    """Five chunks, 23 tokens."""
    found = of(good())
    assert (23, 1) == (figure(found, "output_tokens").mean, figure(found, "output_tokens").n)
    assert 400 / 22 == pytest.approx(figure(found, "tpot_ms").mean)
    assert (4, 100.0) == (figure(found, "gap_ms").n, figure(found, "gap_ms").mean)
    text = tables.text(found)
    assert "between chunks" in text
    assert "between tokens" not in text


@pytest.mark.fault(20)
def test_without_usage_there_are_no_tokens_and_no_tpot() -> None:
    found = of(good(usage=None), good(1, usage=Usage(9, None)))
    assert (0, 0) == (figure(found, "tpot_ms").n, figure(found, "output_tokens").n)
    assert "TPOT" not in tables.text(found).split("requests  ")[1].split("no usage")[0]
    assert "no usage came" in tables.text(of(good(usage=None)))
    document = summary.document(found)
    assert document["rates"]["output_tokens_per_s"] is None
    assert document["figures"]["tpot_ms"]["mean"] is None


@pytest.mark.fault(21)
def test_first_content_and_first_answer_content_stand_apart() -> None:
    found = of(good(first_content_s=0.31, first_answer_s=0.91), good(1, first_answer_s=None))
    assert (2, 1) == (figure(found, "first_content_ms").n, figure(found, "first_answer_ms").n)
    assert 900 == pytest.approx(figure(found, "first_answer_ms").mean)


@pytest.mark.fault(19)
def test_latency_from_the_schedule_stands_beside_latency_from_sending() -> None:
    found = of(*(good(i, sent_s=i + 0.1) for i in range(3)))
    assert 10 == pytest.approx(figure(found, "first_content_ms").mean)
    assert 110 == pytest.approx(figure(found, "from_schedule_ms").mean)
    assert 520 == pytest.approx(figure(found, "end_from_schedule_ms").mean)
    assert "generator was late by up to 100.0 ms" in tables.text(found)


@pytest.mark.fault(19)
def test_the_warm_up_enters_no_figure() -> None:
    found = of(good(0, phase="warmup", first_content_s=9.0), good(1))
    assert 1 == figure(found, "first_content_ms").n
    assert 100 == pytest.approx(figure(found, "first_content_ms").mean)
    assert {"ok": 1} == found.outcomes
    assert "1 of the warm-up apart" in tables.text(found)


@pytest.mark.fault(22)
def test_failures_are_left_out_of_latency_and_stand_beside_every_figure(tmp_path: Path) -> None:
    """30% error events in a 200, 20% 503, 10% empty."""
    quick = Script(first_content_ms=20)
    scripts = [Script(end="error", end_after=1)] * 12 + [error_script(503)] * 8
    scripts += [Script(pieces=())] * 4
    with UpstreamThread(quick) as upstream:
        upstream.enqueue(quick, *scripts)
        run = measured(upstream.url, tmp_path, plan(concurrency=4, count=40))
    found = summary.of(run)
    assert 0.6 == pytest.approx(found.error_rate)
    assert {"failed": 12, "refused": 8, "empty": 4, "ok": 16} == found.outcomes
    for row in found.rows:
        assert row.figure.n <= (16 if row.kind.key != "gap_ms" else 16 * 3)
    assert 20 <= figure(found, "first_content_ms").least + 1
    table = [line for line in tables.text(found).splitlines() if " ms " in line]
    assert len(table) > 4
    assert all(" 60.0% " in line for line in table)
    document = summary.document(found)
    assert all(0.6 == pytest.approx(f["error_rate"]) for f in document["figures"].values())
    assert {"failed 200 500": 12, "refused 503 503": 8, "empty 200": 4} == document["requests"][
        "failures"
    ]


@pytest.mark.fault(22)
def test_a_failed_request_keeps_no_objective() -> None:
    wanted = Objectives(first_content_ms=1000.0)
    found = of(good(), bad(1), bad(2, "refused"), bad(3, "aborted"), objectives=wanted)
    assert found.goodput is not None
    assert (1, 3) == (found.goodput.kept, found.goodput.of)
    assert "1 of 3 kept first content ≤ 1000 ms (33.3%, 0.28/s)" in tables.text(found)


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ({"first_content_ms": 110.0}, True),  # from the schedule: 110 ms
        ({"first_content_ms": 105.0}, False),
        ({"end_to_end_ms": 520.1}, True),
        ({"end_to_end_ms": 515.0}, False),
        ({"tpot_ms": 18.2}, True),
        ({"tpot_ms": 18.1}, False),
        ({"tpot_ms": 18.2, "first_content_ms": 105.0}, False),
    ],
)
def test_goodput_holds_every_objective_from_the_schedule(
    wanted: dict[str, float], kept: bool
) -> None:
    assert kept == summary.keeps(good(), Objectives(**wanted))


def test_without_usage_no_tpot_objective_is_kept_and_one_token_keeps_any() -> None:
    wanted = Objectives(tpot_ms=1000.0)
    assert not summary.keeps(good(usage=None), wanted)
    assert summary.keeps(good(usage=Usage(9, 1)), wanted)


def test_a_closed_loop_has_no_figure_from_the_schedule() -> None:
    found = of(good(scheduled_s=None))
    assert 0 == figure(found, "from_schedule_ms").n
    assert "from schedule" not in tables.text(found)
    assert found.late is None
    assert summary.keeps(good(scheduled_s=None), Objectives(first_content_ms=105.0))


def test_the_record_gives_stages_the_engine_and_what_is_unattributed() -> None:
    found = of(good(record=streams.miss()), good(1, record=streams.hit()), good(2))
    assert 2 == figure(found, "stages.authenticate").n
    assert streams.MISS["stages"]["authenticate"] == figure(found, "stages.authenticate").mean
    assert (1, 40.0) == (
        figure(found, "engine.time_to_first_token_ms").n,
        figure(found, "engine.time_to_first_token_ms").mean,
    )
    assert 8.0 == figure(found, "derived.unattributed").mean
    assert 0 == figure(found, "derived.retrieval_duration").n
    text = tables.text(found)
    for word in ("edge lane", "engine lane", "authenticate", "unattributed", "queue"):
        assert word in text
    assert "retrieval duration" not in text


def test_stages_stand_in_the_order_in_which_the_edge_works() -> None:
    found = of(good(record=streams.hit()), good(1, record=streams.miss()))
    named = [row.kind.title for row in found.rows if row.kind.key.startswith("stages.")]
    assert named.index("authenticate") < named.index("look_up") < named.index("model_call")


def test_hits_and_misses_are_shown_apart() -> None:
    found = of(*(good(i, x_cache="hit" if i % 2 else "miss") for i in range(10)))
    assert {"cache hit": 5, "cache miss": 5} == {each.name: each.n for each in found.classes}
    assert "cache hit" in tables.text(found).split("first content by class")[1]


def test_hits_of_a_cold_run_are_remarked() -> None:
    text = tables.text(of(good(x_cache="hit"), cache="cold"))
    assert "1 answers came from the cache although it was to be cold" in text


def test_rates_are_over_the_time_from_the_first_due_to_the_last_end() -> None:
    found = of(*(good(i) for i in range(5)))
    assert 4.52 == pytest.approx(found.window_s)
    document = summary.document(found)
    assert 5 / 4.52 == pytest.approx(document["rates"]["good_requests_per_s"])
    assert 5 * 23 / 4.52 == pytest.approx(document["rates"]["output_tokens_per_s"])


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (None, "cut off"),
        (End("2026", 1, "interrupted"), "interrupted"),
        (End("2026", 1, "failed"), "failed"),
    ],
)
def test_a_run_that_did_not_come_to_its_end_says_so(end: End | None, told: str) -> None:
    found = summary.of(Run(HEADER, (good(),), end))
    assert told in tables.text(found)
    assert told == summary.document(found)["end"]


def test_an_empty_run_has_no_figure_and_no_zero() -> None:
    found = of()
    assert (None, None, {}) == (found.error_rate, found.window_s, found.outcomes)
    assert "errors not available" in tables.text(found)


def test_the_head_says_what_was_measured_and_how() -> None:
    head = tables.head(of(good(), label="before", placement="edge plus GPU").run)
    for word in (
        "before",
        "edge plus GPU",
        "poisson at 2/s",
        "seed 7",
        "uncontrolled",
        "perf_counter",
    ):
        assert word in head


def test_failures_are_named_most_frequent_first() -> None:
    busy = {"status": 503, "error": Failure("upstream_busy", "server_error")}
    found = of(bad(0), *(bad(i, "refused", **busy) for i in range(1, 4)))
    assert ["refused 503 upstream_busy", "failed 200"] == list(found.failures)
    assert "3 × refused 503 upstream_busy" in tables.text(found)


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
