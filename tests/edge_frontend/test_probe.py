from __future__ import annotations

from typing import Any

import pytest

from edge_frontend import probe
from edge_frontend.errors import UpstreamTimeout, UpstreamUnreachable
from fakes.edge import (
    ROUTES,
    Edge,
    Response,
    Scripted,
    TimedSockets,
    Wait,
    make_key,
    run,
)

TRACE = make_key(("trace",))
HEAD_MS, BODY_MS = 25.0, 5.0
ANSWER = Scripted([b"{}", Wait(BODY_MS), b""], head_ms=HEAD_MS)


def edge_with(**settings: Any) -> Edge:
    """A store, one upstream that answers in 25 and 30 ms, and sockets that connect in 40."""
    edge = Edge.with_store(**settings)
    edge.upstream.usual = ANSWER
    edge.sockets = TimedSockets(edge.clock)
    return edge


def ask(edge: Edge, query: str = "", key: str = TRACE) -> Response:
    return run(edge.get(f"/probe{query}", key=key))


def gpu(response: Response) -> Any:
    return response.json()["upstreams"]["gpu"]


def test_each_way_is_gone_as_often_as_asked_and_timed_by_the_edges_clock() -> None:
    found = gpu(ask(edge_with(), "?count=3"))
    connecting = found["connecting"]
    assert [7.0, 40.0, 40.0, 40.0] == pytest.approx(
        [connecting["look_up_ms"], *connecting["connect_ms"]]
    )
    assert connecting["not_available"] is None
    exchange = {"status": 200, "head_ms": HEAD_MS, "end_ms": HEAD_MS + BODY_MS}
    assert 3 == len(found["exchanges"]["done"])
    assert all(exchange == pytest.approx(each) for each in found["exchanges"]["done"])
    assert "GET /v1/models" == found["question"]


def test_the_store_is_asked_on_the_requests_way_and_its_trips_are_counted() -> None:
    store = ask(edge_with(), "?count=2").json()["store"]
    assert [1, 1] == [each["round_trips"] for each in store["trips"]]
    assert store["not_available"] is None


def test_an_exchange_goes_as_a_model_call_does_with_the_servers_own_key() -> None:
    edge = edge_with()
    ask(edge, "?count=1")
    (call,) = edge.upstream.calls
    assert ("/v1/models", b"") == (call.path, call.body)
    assert b"Bearer upstream-key" == dict(call.headers)["authorization"]


def test_an_answer_is_read_to_its_end_and_a_longer_one_is_ended() -> None:
    edge = edge_with()
    edge.upstream.usual = Scripted([b"x" * (probe.MOST_BYTES + 1), b"more"])
    (done,) = gpu(ask(edge, "?count=1"))["exchanges"]["done"]
    assert done["end_ms"] is None
    assert edge.upstream.sources[0].closed


def test_without_a_count_it_is_five_and_every_upstream_is_gone_to() -> None:
    routes = ROUTES | {"upstreams": ROUTES["upstreams"] | {"b": {"url": "http://b.test"}}}
    document = ask(edge_with(routes=routes)).json()
    assert {"gpu", "b"} == set(document["upstreams"])
    assert all(
        probe.USUAL_COUNT == len(each["exchanges"]["done"])
        for each in document["upstreams"].values()
    )


def test_an_upstream_is_chosen_by_its_name() -> None:
    routes = ROUTES | {"upstreams": ROUTES["upstreams"] | {"b": {"url": "http://b.test"}}}
    assert {"b"} == set(ask(edge_with(routes=routes), "?upstream=b").json()["upstreams"])


@pytest.mark.parametrize(
    ("authority", "port"),
    [("http://b.test", 80), ("https://b.test", 443), ("http://b.test:81", 81)],
)
def test_a_connection_goes_to_the_upstreams_own_port(authority: str, port: int) -> None:
    edge = edge_with(routes=ROUTES | {"upstreams": {"gpu": {"url": authority}}})
    ask(edge, "?count=1")
    assert edge.sockets is not None
    assert [("address of b.test", port)] == edge.sockets.connected


@pytest.mark.parametrize("count", ["0", "21", "-1", "1.5", "x", "", "9999", "٣"])
def test_a_count_out_of_its_bounds_is_refused_by_name(count: str) -> None:
    edge = edge_with()
    response = ask(edge, f"?count={count}")
    assert (400, "count") == (response.status, response.error["param"])
    assert not edge.upstream.calls


def test_an_unknown_upstream_is_not_found() -> None:
    response = ask(edge_with(), "?upstream=nobody")
    assert (404, "not_found") == (response.status, response.error["code"])


@pytest.mark.parametrize("permission", ["chat", "admin"])
def test_a_key_without_trace_goes_nowhere(permission: str) -> None:
    edge = edge_with()
    assert 403 == ask(edge, key=make_key((permission,))).status
    assert not edge.upstream.calls


def test_a_host_without_sockets_says_so() -> None:
    edge = edge_with()
    edge.sockets = None
    found = gpu(ask(edge))["connecting"]
    assert ([], probe.NO_SOCKETS) == (found["connect_ms"], found["not_available"])


def test_an_edge_without_a_store_says_so() -> None:
    edge = Edge()
    edge.upstream.usual = ANSWER
    assert "there is no store" == ask(edge).json()["store"]["not_available"]


def test_a_store_that_is_down_is_told_with_what_was_gone_before() -> None:
    edge = edge_with()
    assert edge.store is not None
    edge.store.down = True
    store = ask(edge).json()["store"]
    assert [] == store["trips"]
    assert store["not_available"]


def test_a_model_server_that_is_away_is_told_beside_what_was_seen() -> None:
    edge = edge_with()
    edge.upstream.enqueue(ANSWER, UpstreamUnreachable("The model server cannot be reached."))
    assert edge.sockets is not None
    edge.sockets.failure = UpstreamTimeout("The model server took no connection in time.")
    response = ask(edge)
    assert 200 == response.status
    assert 1 == len(gpu(response)["exchanges"]["done"])
    assert "The model server cannot be reached." == gpu(response)["exchanges"]["not_available"]
    connecting = gpu(response)["connecting"]
    assert [] == connecting["connect_ms"]
    assert pytest.approx(7.0) == connecting["look_up_ms"]


def test_the_whole_probe_has_a_time_after_which_nothing_more_is_begun() -> None:
    edge = edge_with()
    edge.upstream.usual = Scripted([b""], head_ms=probe.BUDGET_MS / 3)
    found = gpu(ask(edge, "?count=20"))
    assert 3 == len(found["exchanges"]["done"])
    assert "the time for a probe was over" in found["exchanges"]["not_available"]


def test_a_hosts_deadline_bounds_it_too() -> None:
    edge = edge_with(deadline_ms="1500")
    edge.upstream.usual = Scripted([b""], head_ms=300)
    assert 20 > len(gpu(ask(edge, "?count=20"))["exchanges"]["done"])


def test_a_probe_leaves_one_line_in_the_log() -> None:
    edge = edge_with()
    response = ask(edge)
    assert response.log is not None
    assert 1 == len(edge.logs)
