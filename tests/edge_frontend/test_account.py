from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.account import (
    ENGINE_FIELDS,
    INSTANTS,
    LABELS,
    STAGES,
    Account,
    log_line,
)

METRICS = {
    "queue_time_ms": 1.5,
    "time_to_first_token_ms": 30.25,
    "generation_time_ms": 90,
    "mean_itl_ms": 10.5,
    "tokens_per_second": 62.5,
}


def begun(**fields: Any) -> Account:
    return Account(1_000.0, "req_1", "a" * 32, **fields)


def streamed() -> Account:
    """A streamed miss: what a live answer's account looks like."""
    book = begun(far_trips=1, near_trips=2, cache="miss", input_tokens=5, output_tokens=2)
    book.labels = {name: name for name in LABELS}
    book.status = 200
    for stage, now_ms, instant in (
        ("authenticate", 1_000.1, ""),
        ("receive", 1_000.4, ""),
        ("look_up", 1_001.0, ""),
        ("assemble", 1_001.2, "t3"),
        ("model_call", 1_051.2, "t4"),
        ("forward_first", 1_051.5, "t5"),
        ("stream", 1_200.0, "t6"),
    ):
        book.mark(stage, now_ms, instant)
    return book


def nulls(document: Any, path: str = "") -> list[str]:
    """The dotted names of everything in a document that is null."""
    if document is None:
        return [path]
    if not isinstance(document, dict):
        return []
    below = [nulls(value, f"{path}.{name}" if path else name) for name, value in document.items()]
    return [name for names in below for name in names]


@given(st.lists(st.tuples(st.sampled_from(STAGES), st.floats(0, 1e7)), min_size=1))
def test_stages_partition_the_time_from_t0_to_the_last_mark(marks: list[tuple[str, float]]) -> None:
    book, now_ms = begun(), 1_000.0
    for stage, duration_ms in marks:
        now_ms += duration_ms
        book.mark(stage, now_ms, "t6")
    total = book.record()["edge"]["t6"]
    assert sum(book.stages().values()) == pytest.approx(total, abs=0.0015 * len(marks))
    assert all(duration >= 0 for duration in book.stages().values())


def test_stages_of_a_streamed_answer_add_up_to_t6_exactly() -> None:
    record = streamed().record()
    assert 200.0 == record["edge"]["t6"]
    assert 200.0 == pytest.approx(sum(record["stages"].values()), abs=1e-9)
    assert ["authenticate", "receive", "look_up", "assemble", "model_call"] == list(
        record["stages"]
    )[:5]


def test_a_stage_that_is_marked_twice_is_added_up() -> None:
    book = begun()
    book.mark("receive", 1_001.0)
    book.mark("look_up", 1_003.0)
    book.mark("receive", 1_007.0)
    assert {"receive": 5.0, "look_up": 2.0} == book.stages()


def test_measures_are_differences_of_their_instants() -> None:
    derived = streamed().record()["derived"]
    assert 51.5 == derived["application_first_content_latency"]
    assert 50.0 == derived["model_call_first_content_latency"]
    assert 0.3 == derived["stream_forwarding_delay"]
    assert derived["retrieval_duration"] is None


def test_retrieval_is_measured_between_t1_and_t2() -> None:
    book = begun()
    book.mark("look_up", 1_002.0, "t1")
    book.mark("assemble", 1_009.5, "t2")
    assert 7.5 == book.record()["derived"]["retrieval_duration"]


def test_t0_is_where_a_record_begins() -> None:
    assert 0.0 == begun().record()["edge"]["t0"]


@pytest.mark.parametrize("seen", [0, 1, 2, 3, 4, 5, 6, 7])
def test_nothing_that_was_not_observed_is_zero(seen: int) -> None:
    book, whole = begun(), streamed()
    for stage, now_ms in whole.marks[:seen]:
        instant = next((name for name, at in whole.instants.items() if at == now_ms), "")
        book.mark(stage, now_ms, instant)
    record = book.record()
    for name in INSTANTS[1:]:
        observed = name in book.instants
        assert observed is (record["edge"][name] is not None), name
    assert 0.0 not in [record["edge"][name] for name in INSTANTS[1:]]
    assert record["engine"] is None
    assert record["tokens"] == {"input": None, "output": None}


@given(
    st.sets(st.sampled_from(INSTANTS[1:])),
    st.dictionaries(st.sampled_from(ENGINE_FIELDS), st.none() | st.floats(0, 1e4)) | st.none(),
    st.sampled_from(["hit", "miss", "shared", "bypass"]),
    st.integers(0, 2),
    st.sets(st.sampled_from(LABELS)),
)
def test_every_null_has_a_reason_and_nothing_else_has_one(
    instants: set[str], engine: dict[str, Any] | None, cache: str, far: int, labels: set[str]
) -> None:
    book = begun(cache=cache, far_trips=far, engine=engine)
    book.labels = dict.fromkeys(labels, "x")
    for number, name in enumerate(sorted(instants)):
        book.mark(STAGES[number], 1_000.0 + 10 * number, name)
    record = book.record()
    absent = record.pop("not_available")
    assert sorted(nulls(record)) == sorted(absent)
    assert all(isinstance(reason, str) and reason for reason in absent.values())


@pytest.mark.parametrize(
    ("reason", "name", "book"),
    [
        ("there is no retrieval", "edge.t1", begun()),
        ("the model server was not asked", "edge.t3", begun(cache="hit")),
        ("the model server was not asked", "engine", begun(cache="hit")),
        ("the model server was not asked", "derived.unattributed", begun(cache="hit")),
        ("the request ended before", "edge.t4", begun(far_trips=1)),
        ("the request ended before", "tokens.input", begun()),
        ("the request ended before", "category", begun()),
        ("the model server did not give it", "engine", begun(far_trips=1)),
        ("the model server did not give it", "tokens.output", begun(far_trips=1)),
        ("the model server did not give it", "tokens.output", begun(cache="hit")),
        ("the model server did not give it", "engine.mean_itl_ms", begun(far_trips=1, engine={})),
        ("nothing failed", "error", begun()),
    ],
)
def test_a_reason_says_why(reason: str, name: str, book: Account) -> None:
    assert reason == book.record()["not_available"][name]


def test_a_category_that_was_not_named_says_so() -> None:
    book = streamed()
    book.labels["category"] = None
    reason = "the request named none of the configured categories"
    assert reason == book.record()["not_available"]["category"]


def test_the_engine_has_a_lane_of_its_own_and_is_never_added_to_the_edges() -> None:
    without, book = streamed().record(), streamed()
    book.engine = METRICS
    record = book.record()
    assert {name: float(value) for name, value in METRICS.items()} == record["engine"]
    assert without["edge"] == record["edge"]
    assert without["stages"] == record["stages"]
    assert record["engine"]["queue_time_ms"] + record["engine"]["time_to_first_token_ms"] <= (
        record["edge"]["t6"] - record["edge"]["t3"]
    )


def test_unattributed_is_what_the_engine_does_not_explain_of_the_model_call() -> None:
    book = streamed()
    assert 50.0 == book.record()["derived"]["unattributed"]
    book.engine = METRICS
    assert 18.25 == book.record()["derived"]["unattributed"]


def test_unattributed_is_not_available_when_the_engine_explains_too_much() -> None:
    book = streamed()
    book.engine = METRICS | {"time_to_first_token_ms": 49.0}
    record = book.record()
    assert record["derived"]["unattributed"] is None
    assert (
        "the engine's durations exceed the model call"
        == (record["not_available"]["derived.unattributed"])
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "12", [1], None])
def test_an_engine_figure_that_is_no_duration_is_not_available(value: Any) -> None:
    book = streamed()
    book.engine = METRICS | {"queue_time_ms": value}
    record = book.record()
    assert record["engine"]["queue_time_ms"] is None
    assert "engine.queue_time_ms" in record["not_available"]
    assert "NaN" not in json.dumps(record)


def test_server_timing_names_each_stage_and_the_cache() -> None:
    book = begun(cache="miss")
    assert "cache;desc=miss" == book.server_timing()
    book.mark("authenticate", 1_000.25)
    book.mark("receive", 1_001.0)
    assert "authenticate;dur=0.25, receive;dur=0.75, cache;desc=miss" == book.server_timing()


def test_a_log_line_is_the_record_with_time_and_tenant_on_one_line() -> None:
    record = streamed().record()
    line = log_line(record, 1_800_000_000.12345, "acme", "0123456789abcdef")
    assert "\n" not in line
    document = json.loads(line)
    assert (1_800_000_000.123, "acme") == (document.pop("time"), document.pop("tenant"))
    assert "0123456789abcdef" == document.pop("client")
    assert {n: v for n, v in record.items() if n not in ("not_available", "client")} == document
