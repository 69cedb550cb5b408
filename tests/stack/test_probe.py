"""The probe of the real component: what the edge times itself, with distance put in."""

from __future__ import annotations

from typing import Any

from fakes.link import LinkThread
from fakes.upstream import UpstreamThread
from stack.caller import Caller
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer

ROUND_TRIP_MS = 60.0


def probed(edge: Edge, caller: Caller, query: str = "?count=3") -> Any:
    answer = caller.get(edge, f"/probe{query}")
    assert 200 == answer.status_code, answer.text
    return answer.json()


def test_the_edge_sees_the_distance_of_an_exchange_with_its_model_server(
    own_edges: Edges, store: RedisServer, upstream: UpstreamThread, caller: Caller
) -> None:
    far = ROUND_TRIP_MS / 2
    with LinkThread("127.0.0.1", upstream.fake.port, up_ms=far, down_ms=far) as link:
        edge = own_edges.start(settings({"mock": link.url}, store.url))
        document = probed(edge, caller)
        found = document["upstreams"]["gpu-mock"]
        # The link takes a connection at once, and lets its first bytes wait for a handshake's time.
        assert 3 == len(found["connecting"]["connect_ms"])
        assert all(ms < ROUND_TRIP_MS for ms in found["connecting"]["connect_ms"])
        done = found["exchanges"]["done"]
        assert [200] * 3 == [each["status"] for each in done]
        assert all(each["head_ms"] >= ROUND_TRIP_MS for each in done)
        assert all(each["end_ms"] >= each["head_ms"] for each in done)
    assert 3 == len(document["store"]["trips"])
    assert all(each["ms"] < ROUND_TRIP_MS for each in document["store"]["trips"])


def test_wasmtimes_own_client_opens_a_connection_for_every_exchange(
    own_edges: Edges, store: RedisServer, upstream: UpstreamThread, caller: Caller
) -> None:
    """docs/placement.md says so, since the edge itself cannot see it."""
    with LinkThread("127.0.0.1", upstream.fake.port) as link:
        edge = own_edges.start(settings({"mock": link.url}, store.url))
        before = link.connections
        probed(edge, caller, "?count=4")
        # As many for the exchanges, and as many that carry nothing.
        assert 8 == link.connections - before


def test_a_port_where_nobody_listens_is_told(edge: Edge, caller: Caller) -> None:
    found = probed(edge, caller, "?count=1&upstream=gpu-closed")["upstreams"]["gpu-closed"]
    assert "The model server takes no connection." == found["connecting"]["not_available"]
    assert "The model server cannot be reached." == found["exchanges"]["not_available"]


def test_a_name_that_nobody_knows_is_told(edge: Edge, caller: Caller) -> None:
    found = probed(edge, caller, "?count=1&upstream=gpu-nowhere")["upstreams"]["gpu-nowhere"]
    assert found["connecting"]["look_up_ms"] is None
    assert found["connecting"]["not_available"]
    assert found["exchanges"]["not_available"]


def test_a_key_without_the_permission_is_refused(edge: Edge, caller: Caller) -> None:
    assert 403 == caller.other(permissions=("chat", "admin")).get(edge, "/probe").status_code
