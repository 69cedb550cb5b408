"""Distance: what is far, how often it is crossed, and where each delay shows in the record."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes.link import LinkThread
from fakes.upstream import UpstreamThread
from stack.answers import record_of_stream, valid
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import UPSTREAM_KEY, Edge, Edges, settings
from stack.stores import RedisServer

TESTS = Path(__file__).parents[1]
ONE_WAY_MS = 80
ROUND_TRIP_MS = 2 * ONE_WAY_MS
KINDS = {"warm": None, "fresh": 1}


def traced(edge: Edge, caller: Caller, text: str, *, streamed: bool = True) -> Any:
    """Ask once; the record."""
    answer = caller.post(edge, caller.body(text, stream=streamed), x_nearfar_trace="1")
    assert 200 == answer.status_code
    return record_of_stream(answer.content) if streamed else valid(answer.json()["nearfar"])


@dataclass(frozen=True, slots=True)
class Line:
    """An edge whose records are gathered; the first is the warm-up."""

    edge: Edge
    records: list[Any] = field(default_factory=list)

    @property
    def stages(self) -> list[str]:
        """The stages, in order."""
        return list(self.records[0]["stages"])

    def median(self, stage: str) -> float:
        """The median time of a stage without the warm-up."""
        return statistics.median(float(record["stages"][stage]) for record in self.records[1:])


@contextmanager
def fake(name: str, *arguments: str) -> Iterator[Any]:
    """A fake as a process; what it says of itself when it is ready."""
    argv = [sys.executable, "-m", f"fakes.{name}", *arguments]
    with subprocess.Popen(argv, cwd=TESTS, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class Way:
    """An edge whose store and upstream lie behind links of their own."""

    edge: Edge
    near: LinkThread
    far: LinkThread


def way(
    edges: Edges,
    store: RedisServer,
    upstream: UpstreamThread,
    *,
    near_ms: float,
    far_ms: float,
    reuse_count: int | None = None,
) -> Iterator[Way]:
    """Put delays of one direction each between an edge and what it asks."""
    with (
        LinkThread("127.0.0.1", store.port, up_ms=near_ms, down_ms=near_ms) as near,
        LinkThread("127.0.0.1", upstream.server.port, up_ms=far_ms, down_ms=far_ms) as far,
    ):
        wanted = settings({"mock": far.url}, store.url_at(near.port), store_timeout_ms=3000)
        yield Way(edges.start(wanted, reuse_count=reuse_count), near, far)


@pytest.fixture(params=KINDS)
def all_far(
    request: pytest.FixtureRequest, own_edges: Edges, store: RedisServer, upstream: UpstreamThread
) -> Iterator[Way]:
    """80 ms each way between the edge and everything else."""
    yield from way(
        own_edges,
        store,
        upstream,
        near_ms=ONE_WAY_MS,
        far_ms=ONE_WAY_MS,
        reuse_count=KINDS[request.param],
    )


@pytest.fixture(params=KINDS)
def gpu_far(
    request: pytest.FixtureRequest, own_edges: Edges, store: RedisServer, upstream: UpstreamThread
) -> Iterator[Way]:
    """80 ms each way to the upstream; the store is near."""
    yield from way(
        own_edges, store, upstream, near_ms=0, far_ms=ONE_WAY_MS, reuse_count=KINDS[request.param]
    )


class TestTrips:
    def test_a_miss_goes_far_once_and_a_hit_never(
        self, all_far: Way, caller: Caller, calls: Calls
    ) -> None:
        far_before, near_before = all_far.far.round_trips, all_far.near.round_trips
        miss = traced(all_far.edge, caller, "x")
        assert ("miss", 1) == (miss["cache"], miss["trips"]["far"])
        assert 1 == all_far.far.round_trips - far_before
        calls.wait()

        far_before = all_far.far.round_trips
        hit = traced(all_far.edge, caller, "x")
        assert ("hit", 0) == (hit["cache"], hit["trips"]["far"])
        assert 0 == all_far.far.round_trips - far_before
        assert hit["trips"]["near"] <= 2  # a connection may have to be made first
        assert all_far.near.round_trips > near_before

    def test_a_refused_request_goes_nowhere(self, all_far: Way, caller: Caller) -> None:
        before = (all_far.near.connections, all_far.far.connections)
        wrong = caller.other(secret="another-secret-of-forty-characters-000000")
        assert 401 == wrong.post(all_far.edge, caller.body()).status_code
        assert 400 == caller.post(all_far.edge, b"{").status_code
        assert before == (all_far.near.connections, all_far.far.connections)

    def test_the_model_call_bears_the_distance_and_nothing_else_does(
        self, gpu_far: Way, caller: Caller
    ) -> None:
        records = [traced(gpu_far.edge, caller, f"t{i}") for i in range(7)]
        before_call = statistics.median(record["edge"]["t3"] for record in records)
        call = statistics.median(
            record["derived"]["model_call_first_content_latency"] for record in records
        )
        assert before_call < 15
        assert call >= ROUND_TRIP_MS
        # A connection, if one must be made, and the request itself: never a third round trip.
        assert call < 2 * ROUND_TRIP_MS + 60
        assert [1] * 7 == [record["trips"]["far"] for record in records]

    def test_a_hit_is_quick_however_far_the_model_is(self, gpu_far: Way, caller: Caller) -> None:
        traced(gpu_far.edge, caller, "x")
        took = [traced(gpu_far.edge, caller, "x")["edge"]["t6"] for _ in range(7)]
        assert statistics.median(took) < 25

    def test_every_near_round_trip_is_counted(self, all_far: Way, caller: Caller) -> None:
        """What the record says is what the link saw, handshakes apart."""
        traced(all_far.edge, caller, "x")
        trips, connections = all_far.near.round_trips, all_far.near.connections
        hit = traced(all_far.edge, caller, "x", streamed=False)
        made = all_far.near.connections - connections
        assert hit["trips"]["near"] == all_far.near.round_trips - trips + made


# What happens in the store, before the first content, and between two contents.
PLACES = {"store": "look_up", "first content": "model_call", "between": "stream"}
PLAIN: dict[str, Any] = {"content": "word", "chunks": 2, "first_content_ms": 15, "gap_ms": 15}
ROUNDS = 9
WITHIN_MS = 3.0


@pytest.fixture
def apart(own_edges: Edges, store: RedisServer) -> Iterator[Callable[..., Line]]:
    """Starts an edge with a delay in one place; each fake is a process of its own.

    Threads of one process would wait for each other for milliseconds, which is what is measured.
    """
    with ExitStack() as stack:

        def start(place: str = "", delay_ms: int = 0) -> Line:
            changes = {"first content": "first_content_ms", "between": "gap_ms"}
            script = dict(PLAIN)
            if place in changes:
                script[changes[place]] += delay_ms
            up_ms = str(delay_ms if place == "store" else 0)
            server = stack.enter_context(
                fake("upstream", "--api-key", UPSTREAM_KEY, "--marked", json.dumps({"": script}))
            )
            near = stack.enter_context(
                fake("link", "--target", f"127.0.0.1:{store.port}", "--up-ms", up_ms)
            )
            wanted = settings({"mock": server["url"]}, store.url_at(near["port"]))
            return Line(own_edges.start(wanted))

        yield start


class TestDelays:
    """A delay that is put in one place shows in its own stage and moves no other."""

    @pytest.mark.parametrize("delay_ms", [20, 30, 50])
    @pytest.mark.parametrize("place", PLACES)
    def test_it_shows_in_its_stage_and_in_no_other(
        self, apart: Callable[..., Line], caller: Caller, place: str, delay_ms: int
    ) -> None:
        plain, delayed = apart(), apart(place, delay_ms)
        for i in range(-1, ROUNDS):  # side by side, so that a busy machine is busy for both
            for line in (plain, delayed):
                line.records.append(traced(line.edge, caller, f"{id(line)} {i}"))
        moved = {stage: delayed.median(stage) - plain.median(stage) for stage in plain.stages}
        expected = dict.fromkeys(moved, 0) | {PLACES[place]: delay_ms}
        wrong = {s: moved[s] for s in moved if abs(moved[s] - expected[s]) > WITHIN_MS}
        assert not wrong, f"moved: {moved}"

    def test_the_stages_partition_the_request(self, edge: Edge, caller: Caller) -> None:
        for streamed in (True, False):
            for _ in range(2):  # a miss, a hit
                record = traced(edge, caller, f"{streamed}", streamed=streamed)
                assert all(value >= 0 for value in record["stages"].values())
                total = sum(record["stages"].values())
                assert abs(total - record["edge"]["t6"]) < 0.01
                instants = [record["edge"][t] for t in ("t0", "t3", "t4", "t5", "t6")]
                known = [at for at in instants if at is not None]
                assert sorted(known) == known
                assert 0 == known[0]
