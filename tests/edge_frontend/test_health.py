from __future__ import annotations

import pytest

from edge_frontend.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from edge_frontend.health import PROBE_TIMEOUT_MS
from fakes.edge import (
    ROUTES,
    Edge,
    MemoryStore,
    Response,
    Scripted,
    VirtualClock,
    make_settings,
    run,
)

OK = Scripted([b'{"data":[]}'])


def ready(edge: Edge) -> Response:
    return run(edge.get("/readyz", key=None))


def edge_with(answer: Scripted | UpstreamError) -> Edge:
    edge = Edge.with_store()
    edge.upstream.usual = answer
    return edge


def test_an_edge_that_runs_is_healthy_whatever_is_behind_it() -> None:
    edge = edge_with(UpstreamUnreachable("away"))
    assert edge.store is not None
    edge.store.down = True
    response = run(edge.get("/healthz", key=None))
    assert (200, {"status": "ok"}) == (response.status, response.json())
    assert not edge.upstream.calls
    assert not edge.store.batches


def test_an_edge_whose_parts_answer_is_ready() -> None:
    response = ready(edge_with(OK))
    checks = {"settings": "ok", "store": "ok", "upstream gpu": "ok"}
    assert (200, {"status": "ready", "checks": checks}) == (response.status, response.json())


def test_an_edge_without_a_store_is_ready() -> None:
    edge = Edge()
    edge.upstream.usual = OK
    response = ready(edge)
    assert (200, "none") == (response.status, response.json()["checks"]["store"])


def test_a_store_that_does_not_answer_is_named() -> None:
    edge = edge_with(OK)
    assert edge.store is not None
    edge.store.down = True
    response = ready(edge)
    assert (503, ["store"]) == (response.status, response.json()["not_ready"])
    assert "does not answer" == response.json()["checks"]["store"]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (UpstreamUnreachable("The model server cannot be reached."), "cannot be reached"),
        (UpstreamTimeout("The model server did not answer in time."), "in time"),
        (Scripted([b"canary"], status=500), "answers 500"),
        (Scripted([b"canary"], status=503), "answers 503"),
        (Scripted([b"canary"], status=401), "refuses the edge's key"),
        (Scripted([b"canary"], status=403), "refuses the edge's key"),
    ],
)
def test_a_model_server_that_is_not_ready_is_named_with_what_it_does(
    answer: Scripted | UpstreamError, state: str
) -> None:
    response = ready(edge_with(answer))
    document = response.json()
    assert (503, "not ready", ["upstream gpu"]) == (
        response.status, document["status"], document["not_ready"],
    )  # fmt: skip
    assert state in document["checks"]["upstream gpu"]
    assert b"canary" not in response.body
    assert b"upstream-key" not in response.body


def test_a_server_that_has_no_list_of_models_answers_at_least() -> None:
    assert 200 == ready(edge_with(Scripted([b""], status=404))).status


def test_every_upstream_is_asked_and_only_the_one_that_is_away_is_named() -> None:
    routes = ROUTES | {"upstreams": ROUTES["upstreams"] | {"b": {"url": "http://b.test"}}}
    clock = VirtualClock()
    edge = Edge(clock, make_settings(routes=routes), MemoryStore(clock))
    edge.upstream.enqueue(OK, UpstreamUnreachable("away"))
    assert ["upstream b"] == ready(edge).json()["not_ready"]
    assert ["gpu.test:8000", "b.test"] == [call.authority for call in edge.upstream.calls]


def test_the_question_is_small_has_the_servers_key_and_does_not_wait_long() -> None:
    edge = edge_with(OK)
    ready(edge)
    (call,) = edge.upstream.calls
    assert ("/v1/models", b"") == (call.path, call.body)
    assert b"Bearer upstream-key" == dict(call.headers)["authorization"]
    assert PROBE_TIMEOUT_MS == call.connect_timeout_ms == call.first_byte_timeout_ms
    assert edge.upstream.sources[0].closed


def test_a_shorter_time_out_of_the_settings_stands() -> None:
    edge = Edge(settings=make_settings(connect_timeout_ms="100", first_byte_timeout_ms="200"))
    edge.upstream.usual = OK
    ready(edge)
    (call,) = edge.upstream.calls
    assert (100, 200) == (call.connect_timeout_ms, call.first_byte_timeout_ms)


def test_being_asked_for_health_writes_no_log() -> None:
    edge = edge_with(OK)
    ready(edge)
    run(edge.get("/healthz", key=None))
    assert [] == edge.logs
