"""nearfar bench against the built component: records, caches, and a key that may not trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.script import METRICS, Script
from fakes.upstream import UpstreamThread
from nearfar import runs
from nearfar.exchange import Edge as At
from nearfar.figures import summary, tables
from nearfar.load import session
from nearfar.load.client import Manner
from nearfar.load.plan import Naming, Plan
from nearfar.load.prompt import Prompt, Sampling
from nearfar.load.session import Session
from nearfar.load.workload import Requests
from nearfar.runs import Objectives, Run
from stack.caller import Caller
from stack.edges import Edge


def measured(edge: Edge, caller: Caller, path: Path, **more: Any) -> Run:
    """Twelve requests, four at once, after two to warm up."""
    text = f"{caller.marker} count these words"
    asked = (Prompt(id="p", messages=[{"role": "user", "content": text}]),)
    plan = Plan(
        requests=Requests("prompts", "p", asked),
        sampling=Sampling(model="mock"),
        concurrency=4,
        count=12,
        warm_up=2,
        **more,
    )
    session.run(
        Session(
            edge=At(edge.url, caller.key),
            plan=plan,
            manner=Manner(timeout_s=30),
            naming=Naming(),
            objectives=Objectives(),
            path=path,
            run=path.stem,
        )
    )
    return runs.read(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def traced(upstream: UpstreamThread, caller: Caller) -> Caller:
    """A caller whose answers come with the engine's durations."""
    upstream.mark(caller.marker, Script(first_content_ms=60, gap_ms=2, metrics=METRICS))
    return caller


def test_a_cold_run_is_all_misses_with_all_three_lanes(
    warm: Edge, traced: Caller, path: Path, upstream: UpstreamThread
) -> None:
    run = measured(warm, traced, path, cache="cold")
    assert 12 == len(run.good)
    assert {"miss"} == {s.x_cache for s in run.good}
    assert 15 == sum(traced.marker.encode() in r.body for r in upstream.requests)
    found = summary.of(run)
    counts = {row.kind.key: row.figure.n for row in found.rows}
    for name in ("authenticate", "look_up", "assemble", "model_call", "forward_first", "stream"):
        assert 12 == counts[f"stages.{name}"]
    assert 12 == counts["engine.queue_time_ms"] == counts["derived.unattributed"]
    assert 0 == counts["derived.retrieval_duration"]
    text = tables.text(found)
    assert "edge lane" in text
    assert "engine lane" in text
    assert run.header.edge is not None
    assert run.header.edge["settings_hash"] == run.good[0].recorded("settings_hash")


def test_a_warm_run_is_all_hits_and_has_no_engine_lane(
    warm: Edge, traced: Caller, path: Path
) -> None:
    run = measured(warm, traced, path, cache="warm")
    assert {"hit"} == {s.x_cache for s in run.good}
    assert {None} == {s.recorded("engine") for s in run.good}
    assert "engine lane" not in tables.text(summary.of(run))


def test_a_bypassed_cache_is_not_asked(warm: Edge, traced: Caller, path: Path) -> None:
    run = measured(warm, traced, path, cache="bypass")
    assert {"bypass"} == {s.x_cache for s in run.good}


def test_without_the_permission_the_load_goes_on_without_records(
    warm: Edge, traced: Caller, path: Path
) -> None:
    run = measured(warm, traced.other(permissions=("chat",)), path)
    assert 12 == len(run.good)
    assert {None} == {s.record for s in run.good}
    assert run.header.settings["record_asked"] is False
    assert "no record came" in tables.text(summary.of(run))


def test_the_client_waits_longer_than_the_edge_says_and_both_say_when_content_came(
    warm: Edge, traced: Caller, path: Path
) -> None:
    for found in measured(warm, traced, path).good:
        inside = found.recorded("derived.application_first_content_latency")
        assert found.first_content_ms is not None
        assert inside <= found.first_content_ms + 1
        assert inside >= 60
