"""Distance: what is far, how often it is crossed, and where each delay shows in the record."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
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
        LinkThread("127.0.0.1", upstream.fake.port, up_ms=far_ms, down_ms=far_ms) as far,
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
        before_call = [record["edge"]["t3"] for record in records]
        # No far round trip fits before any call, however busy this machine is.
        assert max(before_call) < ROUND_TRIP_MS
        assert min(before_call) < 15
        calls = [record["derived"]["model_call_first_content_latency"] for record in records]
        assert min(calls) >= ROUND_TRIP_MS
        # A connection, if one must be made, and the request itself: never a third round trip.
        assert statistics.median(calls) < 2 * ROUND_TRIP_MS + 60
        assert [1] * 7 == [record["trips"]["far"] for record in records]

    def test_a_hit_is_quick_however_far_the_model_is(self, gpu_far: Way, caller: Caller) -> None:
        traced(gpu_far.edge, caller, "x")
        took = [traced(gpu_far.edge, caller, "x")["edge"]["t6"] for _ in range(7)]
        assert max(took) < ROUND_TRIP_MS
        assert min(took) < 15

    def test_every_near_round_trip_is_counted(self, all_far: Way, caller: Caller) -> None:
        """What the record says is what the link saw, handshakes apart."""
        traced(all_far.edge, caller, "x")
        trips, connections = all_far.near.round_trips, all_far.near.connections
        hit = traced(all_far.edge, caller, "x", streamed=False)
        made = all_far.near.connections - connections
        assert hit["trips"]["near"] == all_far.near.round_trips - trips + made


# What happens in the store, before the first content, and between two contents.
PLACES = {"store": "look_up", "first content": "model_call", "between": "stream"}
DELAYS_MS = (20, 30, 50)
PLAIN: dict[str, Any] = {
    "content": "word", "chunks": 2, "first_content_ms": 15, "gap_ms": 15,
}  # fmt: skip
PAIRS = 15
MOST_PAIRS = 45  # a busy machine needs more of them for a median as sure; none is left out
WITHIN_MS = 3.0
LATE_TIMER_MS = 10.0  # least distance between what was put and what was not


def scripts() -> dict[str, dict[str, Any]]:
    """What the upstream does, by a word in the prompt."""
    found = {"plain.": PLAIN}
    for name, changed in (("first content", "first_content_ms"), ("between", "gap_ms")):
        for ms in DELAYS_MS:
            found[f"{name} {ms}."] = {**PLAIN, changed: PLAIN[changed] + ms}
    return found


@dataclass(frozen=True, slots=True)
class Delayed:
    """Edges by the delay of their store, and the upstream that they all have."""

    edges: dict[int, Edge]
    upstream_url: str

    def ask(self, caller: Caller, store_ms: int, text: str) -> tuple[Any, dict[str, float]]:
        """Ask once: the stages of the record, and what the upstream really put into two of them.

        A timer on a busy machine is milliseconds late, which is no error of the record.
        """
        stages = traced(self.edges[store_ms], caller, text)["stages"]
        told = httpx.get(f"{self.upstream_url}/fake/last", trust_env=False).json()
        first, second = told["deltas_sent_ms"]
        return stages, {"model_call": first, "stream": second - first}


@pytest.fixture(scope="module")
def delayed(edges: Edges, store: RedisServer) -> Iterator[Delayed]:
    """Each fake is a process of its own.

    Threads of one process wait for each other for milliseconds, which is what is measured here.
    """
    with ExitStack() as stack:
        marked = ("--marked", json.dumps(scripts()))
        server = stack.enter_context(fake("upstream", "--api-key", UPSTREAM_KEY, *marked))
        found = {}
        for ms in (0, *DELAYS_MS):
            target = ("--target", f"127.0.0.1:{store.port}")
            link = stack.enter_context(fake("link", *target, "--up-ms", str(ms)))
            wanted = settings({"mock": server["url"]}, store.url_at(link["port"]))
            found[ms] = edges.start(wanted)
        yield Delayed(found, server["url"])


class Pairs:
    """Differences between requests side by side: of stages, and of what was put into them."""

    def __init__(self) -> None:
        self._moved: dict[str, list[float]] = {}
        self._put: dict[str, list[float]] = {}

    def add(self, plain: tuple[Any, dict[str, float]], late: tuple[Any, dict[str, float]]) -> None:
        """Take two requests."""
        assert list(plain[0]) == list(late[0])
        for kept, one, other in zip((self._moved, self._put), plain, late, strict=True):
            for stage, value in other.items():
                kept.setdefault(stage, []).append(value - one[stage])

    @property
    def put(self) -> dict[str, float]:
        """The median of what the upstream put into a stage."""
        return {stage: statistics.median(found) for stage, found in self._put.items()}

    def wrong(self, store_ms: int) -> dict[str, float]:
        """Stages that moved otherwise than by what was put into them, and by how much."""
        errors = {}
        for stage, moved in self._moved.items():
            nominal = store_ms if stage == PLACES["store"] else 0
            put = self._put.get(stage, [nominal] * len(moved))
            errors[stage] = statistics.median(m - p for m, p in zip(moved, put, strict=True))
        return {stage: error for stage, error in errors.items() if abs(error) > WITHIN_MS}


class TestDelays:
    """A delay that is put in one place shows in its own stage and moves no other."""

    @pytest.mark.parametrize("delay_ms", DELAYS_MS)
    @pytest.mark.parametrize("place", PLACES)
    def test_it_shows_in_its_stage_and_in_no_other(
        self, delayed: Delayed, caller: Caller, place: str, delay_ms: int
    ) -> None:
        store_ms = delay_ms if place == "store" else 0
        word = "plain." if place == "store" else f"{place} {delay_ms}."
        pairs = Pairs()
        for i in range(MOST_PAIRS + 1):  # side by side, so that a busy machine is busy for both
            without = delayed.ask(caller, 0, f"plain. without {i}")
            with_it = delayed.ask(caller, store_ms, f"{word} with {i}")
            if i == 0:
                continue  # connections are made
            pairs.add(without, with_it)
            if i >= PAIRS and not pairs.wrong(store_ms):
                break
        assert not pairs.wrong(store_ms)
        for stage, put in pairs.put.items():
            nominal = delay_ms if stage == PLACES[place] else 0
            assert abs(put - nominal) < LATE_TIMER_MS, "the fake did not put the delay there"

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
