"""A load on a fake upstream, from its first request to the last line of its file."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import sample as streams
from fakes.http_edge import HttpEdge, serving
from fakes.script import Script, error_script
from fakes.upstream import UpstreamThread
from nearfar import runs
from nearfar.errors import Missing, NearfarError, Refused
from nearfar.exchange import Edge
from nearfar.load import session
from nearfar.load.arrivals import Arrivals
from nearfar.load.client import Manner
from nearfar.runs import Failure, Sample, Usage

from .asking import measured, plan, session_of

PACED = Script(first_content_ms=40, gap_ms=10, chunks=4)


@pytest.fixture
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread(PACED) as found:
        yield found


def test_a_closed_loop_keeps_so_many_in_flight(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(concurrency=3, count=12))
    assert (12, 12) == (len(run.measured), len(run.good))
    assert 3 == upstream.fake.peak_active
    assert {None} == {s.scheduled_s for s in run.measured}
    assert run.is_whole


def test_an_open_loop_sends_when_it_is_due_and_not_when_others_have_ended(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    arrivals = Arrivals(process="constant", rate_per_s=100, requests=20)
    run = measured(upstream.url, tmp_path, plan(arrivals=arrivals))
    due = [s.scheduled_s for s in sorted(run.measured, key=lambda s: s.i)]
    assert [round(n * 0.01, 3) for n in range(20)] == [
        round((at or 0) - (due[0] or 0), 3) for at in due
    ]
    assert upstream.fake.peak_active > 3  # 70 ms each, one every 10 ms
    assert all((s.late_ms or 0) >= 0 for s in run.measured)


def test_instants_and_gaps_are_those_of_the_server(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    run = measured(upstream.url, tmp_path, plan(count=5))
    for found in run.good:
        assert found.first_content_ms is not None
        assert 40 <= found.first_content_ms + 1
        assert 3 == len(found.gaps_ms)
        between_s = (found.last_content_s or 0) - (found.first_content_s or 0)
        assert between_s * 1000 == pytest.approx(sum(found.gaps_ms), abs=0.01)
        assert found.sent_s < (found.headers_s or 0) <= (found.first_content_s or 0)
        assert (found.last_content_s or 0) <= (found.end_s or 0)
        assert Usage(3, 4, None) == found.usage


def test_the_first_connection_is_new_and_is_kept(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(count=4))
    # The probe has a client of its own.
    assert ["new", "new", "reused", "reused", "reused"] == [s.connection for s in run.samples]
    assert 2 == upstream.fake.connections


def test_a_kept_connection_that_the_server_closed_is_no_failure(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    closing = Script(end="fin", end_before_head=True)
    upstream.enqueue(PACED, PACED, closing, PACED)
    run = measured(upstream.url, tmp_path, plan(count=2))
    assert ["ok", "ok", "ok"] == [s.outcome for s in run.samples]
    assert 4 == len(upstream.requests)


def test_the_warm_up_is_apart(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(count=4, warm_up=6))
    assert ["warmup"] * 7 + ["measured"] * 4 == [s.phase for s in run.samples]
    assert list(range(11)) == sorted(s.i for s in run.samples)


def test_a_cold_cache_is_asked_by_a_seed_of_its_own_each_time(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    measured(upstream.url, tmp_path, plan(count=4, warm_up=2))
    measured(upstream.url, tmp_path, plan(count=4))
    seeds = [request.json["seed"] for request in upstream.requests]
    assert 12 == len(seeds) == len(set(seeds))
    assert max(seeds) < 1 << 53


def test_a_warm_cache_was_asked_everything_before(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(count=2, cache="warm"))
    assert ["warmup", "warmup", "measured", "measured"] == [s.phase for s in run.samples]
    assert 1 == len({request.body for request in upstream.requests})


def test_a_bypassed_cache_is_told_so(upstream: UpstreamThread, tmp_path: Path) -> None:
    measured(upstream.url, tmp_path, plan(count=1, cache="bypass"))
    assert {"no-store"} == {request.header("cache-control") for request in upstream.requests}


def test_usage_and_the_record_are_asked_for_by_default(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    measured(upstream.url, tmp_path, plan(count=1))
    (asked, *_) = upstream.requests
    assert {"include_usage": True} == asked.json["stream_options"]
    assert "1" == asked.header("x-nearfar-trace")
    assert "Bearer key" == asked.header("authorization")


def test_the_record_and_what_the_edge_says_of_itself_are_kept(tmp_path: Path) -> None:
    with serving(HttpEdge(stream=streams.stream(record=streams.miss()))) as edge:
        run = measured(
            edge.endpoint, tmp_path, plan(count=2), edge=Edge(edge.endpoint, edge.key("chat"))
        )
    assert [streams.miss()] * 2 == [s.record for s in run.good]
    assert ["miss"] * 2 == [s.x_cache for s in run.good]
    assert run.header.edge is not None
    assert streams.MISS["settings_hash"] == run.header.edge["settings_hash"]


def test_a_key_without_the_permission_is_asked_without_a_record(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    upstream.enqueue(error_script(403))
    run = measured(upstream.url, tmp_path, plan(count=2))
    assert ["1", None, None, None] == [r.header("x-nearfar-trace") for r in upstream.requests]
    assert 2 == len(run.good)
    assert run.header.settings["record_asked"] is False


def test_neither_key_nor_texts_stand_in_the_file(upstream: UpstreamThread, tmp_path: Path) -> None:
    secret = Edge(upstream.url.replace("http://", "http://user:hidden@"), "nf_secret")
    run = measured(upstream.url, tmp_path, plan(count=1), edge=secret)
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    for word in ("nf_secret", "hidden", "one two three", "two"):
        assert word not in text
    assert hashlib.sha256(b"one two three one").hexdigest() == run.good[0].answer_sha256


def test_texts_are_kept_when_they_are_asked_for(upstream: UpstreamThread, tmp_path: Path) -> None:
    upstream.fake.script = Script(content="one two")
    manner = Manner(keep_text=True)
    run = measured(upstream.url, tmp_path, plan(count=1), manner=manner)
    (good,) = run.good
    assert ("one two three", "one two", "one") == (good.prompt, good.answer, good.expected)


def test_every_kind_of_failure_is_a_sample_that_says_what_it_was(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    upstream.enqueue(
        PACED,
        error_script(503),
        Script(end="error", end_after=1),
        Script(end="fin", end_after=1),
        Script(end="rst", end_after=1),
        Script(pieces=()),
        Script(end="no_done"),
        Script(status=500, body=b"<html>"),
        Script(end="hang", end_after=1),
        Script(body=b"data: {]\n\n"),
    )
    run = measured(upstream.url, tmp_path, plan(count=9), manner=Manner(timeout_s=0.5))
    assert [
        ("refused", 503, "503"),
        ("failed", 200, "500"),
        ("cut", 200, "connection_closed"),
        ("cut", 200, "ConnectionResetError"),
        ("empty", 200, None),
        ("cut", 200, "ended_without_done"),
        ("refused", 500, "status_500"),
        ("failed", 200, "timeout"),
        ("failed", 200, "not_a_chat_stream"),
    ] == [(s.outcome, s.status, s.error and s.error.code) for s in run.measured]
    assert [] == list(run.good)
    for found in run.measured:
        assert found.headers_s is not None
        assert ("first_content_s" in found.not_available) == (found.first_content_s is None)


def test_a_dead_endpoint_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(Missing, match=r"Nothing answers at .*ConnectionRefusedError"):
            measured(url, tmp_path, plan())
    assert [] == list(tmp_path.iterdir())


def test_a_wrong_key_is_told(tmp_path: Path) -> None:
    with (
        UpstreamThread(api_key="right") as upstream,
        pytest.raises(Refused, match="status 401") as told,
    ):
        measured(upstream.url, tmp_path, plan())
    assert "--api-key" in told.value.next_step


def test_what_is_no_chat_server_is_told(upstream: UpstreamThread, tmp_path: Path) -> None:
    upstream.enqueue(Script(body=b"data: hello\n\n"))
    with pytest.raises(NearfarError, match="not a chat stream"):
        measured(upstream.url, tmp_path, plan())


def test_a_server_that_is_busy_at_first_is_measured_all_the_same(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    upstream.enqueue(error_script(503))
    assert 3 == len(measured(upstream.url, tmp_path, plan()).good)


def test_a_server_that_dies_ends_the_load_and_what_it_gave_is_kept(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    found = plan(concurrency=2, count=100_000)

    def die(seen: Sample) -> None:
        if seen.i == 5:
            upstream.down()

    with pytest.raises(Missing, match="does not answer any more"):
        session.run(session_of(upstream.url, path, found, saw=die))
    run = runs.read(path)
    assert run.end is not None
    assert "failed" == run.end.reason
    assert len(run.good) >= 3
    assert Failure("ConnectionRefusedError", "client") in [s.error for s in run.samples]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_measured(
    upstream: UpstreamThread, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "r.jsonl"
    arrivals = Arrivals(process="constant", rate_per_s=50, duration_s=100)
    ended: list[Sample] = []

    def interrupt(seen: Sample) -> None:
        ended.append(seen)
        if len(ended) == 5:
            os.kill(os.getpid(), number)

    asked = session_of(upstream.url, path, plan(arrivals=arrivals), saw=interrupt)
    began = time.monotonic()
    assert "interrupted" == session.run(asked)
    assert time.monotonic() - began < 20
    run = runs.read(path)
    assert run.end is not None
    assert ("interrupted", len(run.samples)) == (run.end.reason, run.end.requests)
    assert len(run.good) >= 3
    assert "aborted" in {s.outcome for s in run.measured}
    assert 0.0 == run.error_rate


def test_blocks_share_the_requests_out_in_order(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(count=40, concurrency=4))
    blocks = [s.block for s in sorted(run.measured, key=lambda s: s.i)]
    assert sorted(blocks) == blocks
    assert dict.fromkeys(range(20), 2) == {n: blocks.count(n) for n in set(blocks)}


def test_a_load_of_some_seconds_ends_then(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(concurrency=2, duration_s=0.5))
    start = run.measured[0].sent_s
    assert all(s.sent_s - start < 0.5 for s in run.measured)
    assert len(run.measured) > 3
    assert 0 == run.measured[0].block
    assert max(s.block for s in run.measured) <= 19


def test_a_trace_is_played_at_its_instants(upstream: UpstreamThread, tmp_path: Path) -> None:
    run = measured(upstream.url, tmp_path, plan(instants=(0.0, 0.05, 0.3)))
    due = [s.scheduled_s or 0 for s in sorted(run.measured, key=lambda s: s.i)]
    assert [0.0, 0.05, 0.3] == pytest.approx([at - due[0] for at in due])


@pytest.mark.fault(19)
def test_a_stall_is_seen_by_all_who_were_due_meanwhile(tmp_path: Path) -> None:
    """20 a second for 2 s at a server of one slot that stalls for 1 s once.

    What was due in the second of the stall waits for its rest: counted from dispatch by a client
    that waits for its turn, one request would have seen it.
    """
    quick = Script(first_content_ms=1)
    with UpstreamThread(quick, slots=1) as upstream:
        upstream.enqueue(quick, *[quick] * 10, Script(first_content_ms=1000))
        arrivals = Arrivals(process="constant", rate_per_s=20, duration_s=2.0)
        run = measured(upstream.url, tmp_path, plan(arrivals=arrivals))
    waited = sorted((s.from_schedule_ms or 0 for s in run.good), reverse=True)
    assert 40 == len(waited)
    assert sum(ms > 100 for ms in waited) >= 17
    assert 1000 <= waited[0]
    assert waited[10] > 400


def test_the_file_is_the_same_json_that_the_page_says(
    upstream: UpstreamThread, tmp_path: Path
) -> None:
    run = measured(upstream.url, tmp_path, plan(count=1))
    (path,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["header", "request", "request", "end"] == [line["kind"] for line in lines]
    assert {"httptools", "uvloop"} == run.header.machine["libraries"].keys()
    assert not {"prompt", "answer"} & lines[1].keys()


def test_a_stalled_server_gets_as_many_connections_as_are_due(tmp_path: Path) -> None:
    """More than a process usually may have open; none of them waits for another."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        with UpstreamThread(Script(first_content_ms=1500)) as upstream:
            upstream.enqueue(PACED)
            arrivals = Arrivals(process="constant", rate_per_s=400, requests=200)
            run = measured(upstream.url, tmp_path, plan(arrivals=arrivals))
            assert upstream.fake.peak_active > 150
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 200 == len(run.good)
