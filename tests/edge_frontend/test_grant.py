"""What the edge mints is what the gate reads: each half has code of its own for one format."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend import grant
from edge_frontend.caller import Caller
from edge_frontend.limits import MOST, NAMES, Limits
from fakes.edge import WALL_S, Edge, Scripted, chat, make_key, run, stream
from gpu_backend import grant as gate

SECRET = "a secret that both halves share, long"
VECTORS = json.loads((Path(__file__).parents[1] / "contract/grant_vectors.json").read_text())
COUNTS = st.none() | st.integers(0, MOST)


def headers_of(edge: Edge, index: int = -1) -> dict[str, bytes]:
    """The headers of one call to the model server."""
    return dict(edge.upstream.calls[index].headers)


def granted(edge: Edge, index: int = -1) -> gate.Grant:
    """The grant of one call, as the gate reads it."""
    value = headers_of(edge, index)[grant.HEADER]
    return gate.verify(value, [SECRET.encode()], edge.clock.wall_s())


@given(
    limits=st.builds(Limits, **dict.fromkeys(NAMES, COUNTS)),
    priority=st.sampled_from([0, 1, 2]),
    tokens=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    hits=st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    choices=st.integers(1, 128),
    tenant=st.sampled_from(["acme", "login~acme", "A" * 64]),
    shared=st.builds(Limits, **dict.fromkeys(NAMES, COUNTS)),
)
def test_the_gate_reads_what_the_edge_mints(
    limits: Limits,
    priority: int,
    tokens: tuple[int, int],
    hits: tuple[int, int],
    choices: int,
    tenant: str,
    shared: Limits,
) -> None:
    caller = Caller("k1", tenant, 2**40, limits=limits, priority=priority)
    value = grant.mint(
        SECRET, caller, request_id="req_1", issued_s=WALL_S, estimate_tokens=tokens,
        choices=choices, hits=hits, tenant_limits=shared,
    )  # fmt: skip
    read = gate.verify(value, [b"x" * 32, SECRET.encode()], WALL_S + 1)
    assert ("req_1", tenant, "k1", priority) == (
        read.request_id, read.tenant, read.key, read.priority,
    )  # fmt: skip
    for minted, found in ((limits, read.limits), (shared, read.tenant_limits)):
        assert [getattr(minted, n) for n in NAMES] == [getattr(found, n) for n in NAMES]
    assert (tokens, hits, choices) == (
        (read.input_tokens, read.output_tokens),
        (read.hits, read.cached_tokens),
        read.choices,
    )
    assert WALL_S == read.issued_s


def test_another_secret_or_another_byte_is_no_grant() -> None:
    caller = Caller("k1", "acme", 2**40)
    value = grant.mint(SECRET, caller, request_id="r", issued_s=WALL_S, estimate_tokens=(1, 1))
    with pytest.raises(gate.GrantError):
        gate.verify(value, [b"y" * 32], WALL_S)
    with pytest.raises(gate.GrantError):
        gate.verify(b"X" + value[1:], [SECRET.encode()], WALL_S)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_shared_vectors_are_what_the_edge_mints(vector: dict[str, Any]) -> None:
    told = vector["grant"]
    limits = Limits(**{name: told["limits"][name] for name in NAMES})
    caller = Caller(told["key"], told["tenant"], 2**40, limits=limits, priority=told["priority"])
    value = grant.mint(
        vector["secret"], caller, request_id=told["request_id"], issued_s=told["issued_s"],
        estimate_tokens=(told["input_tokens"], told["output_tokens"]), choices=told["choices"],
        hits=(told["hits"], told["cached_tokens"]),
        tenant_limits=Limits(**told.get("tenant_limits", {})),
    )  # fmt: skip
    assert payload(vector["header"].encode()) == payload(value)
    if told["subject"] is None:
        assert vector["header"] == value.decode()


def payload(value: bytes) -> dict[str, Any]:
    """What a grant says, but for the subject, which the edge leaves out."""
    part = value.partition(b".")[0]
    document: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4)))
    document.pop("sub", None)
    return document


def test_a_call_carries_a_grant_for_this_caller_and_this_request() -> None:
    edge = Edge.with_store(gate_secret=SECRET)
    key = make_key(limits=Limits(rpm=5, tpm=1_000, par=2, month=10**6), priority=2)
    reply = run(edge.ask(chat("x" * 300, max_tokens=40, n=2, temperature=1), key=key))
    read = granted(edge)
    assert (reply.headers["x-request-id"], "acme", "k1", 2) == (
        read.request_id, read.tenant, read.key, read.priority,
    )  # fmt: skip
    assert gate.Limits(5, 1_000, 2, 10**6) == read.limits
    assert (2, 80) == (read.choices, read.output_tokens)
    assert 100 <= read.input_tokens <= 110, "the estimate is ample"


def test_a_grant_holds_the_limits_of_the_callers_tenant() -> None:
    shared = {"acme": {"rpm": 9, "month": 7}, "*": {"par": 3}, "free": {}}
    edge = Edge.with_store(gate_secret=SECRET, tenants=shared)
    for tenant, limits in (
        ("acme", gate.Limits(rpm=9, month=7)),
        ("other", gate.Limits(par=3)),
        ("free", gate.NO_LIMITS),
    ):
        run(edge.ask(chat(), key=make_key(tenant=tenant)))
        assert limits == granted(edge).tenant_limits


def test_the_grant_holds_the_cap_where_the_client_set_none() -> None:
    edge = Edge.with_store(gate_secret=SECRET, max_tokens="77")
    run(edge.ask(chat()))
    assert 77 == granted(edge).output_tokens == edge.upstream.sent()["max_tokens"]
    run(edge.ask(chat("again", max_completion_tokens=9)))
    assert 9 == granted(edge).output_tokens


def test_each_call_has_a_grant_of_its_own() -> None:
    edge = Edge.with_store(gate_secret=SECRET)
    for text in ("a", "b"):
        run(edge.ask(chat(text)))
    assert granted(edge, 0).request_id != granted(edge, 1).request_id


def test_without_a_secret_there_is_no_grant_and_none_of_the_clients_passes() -> None:
    edge = Edge.with_store()
    run(edge.ask(chat(), headers={grant.HEADER: "forged"}))
    assert grant.HEADER not in headers_of(edge)
    edge = Edge.with_store(gate_secret=SECRET)
    run(edge.ask(chat(), headers={grant.HEADER: "forged"}))
    assert [name for name, _ in edge.upstream.calls[0].headers].count(grant.HEADER) == 1
    assert "acme" == granted(edge).tenant


def test_a_probe_of_readiness_carries_none() -> None:
    edge = Edge.with_store(gate_secret=SECRET)
    run(edge.get("/readyz", key=None))
    assert grant.HEADER not in headers_of(edge)


def salted(edge: Edge, **request: Any) -> Any:
    run(edge.ask(**request))
    return edge.upstream.sent().get("cache_salt")


def test_each_tenant_has_a_prefix_cache_of_its_own_at_vllm() -> None:
    edge = Edge.with_store(routes=routes("vllm"))
    acme, other = make_key(), make_key(tenant="other")
    one, two = (salted(edge, body=chat(text), key=acme) for text in "ab")
    assert one == two != salted(edge, body=chat("c"), key=other)
    assert "acme" not in one
    assert len(one) >= 20


def test_a_clients_own_salt_parts_its_requests_further_and_joins_no_other_tenants() -> None:
    edge = Edge.with_store(routes=routes("vllm"))
    acme, other = make_key(), make_key(tenant="other")
    plain = salted(edge, body=chat("a"), key=acme)
    own = salted(edge, body=chat("b", cache_salt="mine"), key=acme)
    theirs = salted(edge, body=chat("c", cache_salt="mine"), key=other)
    taken = salted(edge, body=chat("d", cache_salt=plain), key=other)
    assert 4 == len({plain, own, theirs, taken})


def test_another_kind_of_server_gets_only_the_clients_own_salt() -> None:
    edge = Edge.with_store(routes=routes("openai"))
    assert salted(edge, body=chat("a")) is None
    assert "mine" == salted(edge, body=chat("b", cache_salt="mine"))


def routes(kind: str) -> dict[str, Any]:
    return {
        "version": "1",
        "upstreams": {"gpu": {"url": "http://gpu.test", "kind": kind}},
        "models": {"small": {"upstream": "gpu"}},
    }


def test_a_stream_that_is_followed_has_one_grant() -> None:
    edge = Edge.with_store(gate_secret=SECRET)
    edge.upstream.usual = Scripted(stream("x"), head_ms=100)

    async def both() -> None:
        await asyncio.gather(edge.ask(chat(stream=True)), edge.beside().ask(chat(stream=True)))

    run(both())
    assert 1 == len(edge.upstream.calls)
