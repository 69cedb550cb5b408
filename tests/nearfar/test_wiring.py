"""What the edge of the local stack is told, read back by the edge's own code."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from edge_frontend import keys, settings
from fakes.http_edge import HttpEdge, serving
from fakes.upstream import UpstreamThread
from nearfar import engine, wiring
from nearfar.credentials import Credentials
from nearfar.engine import Served
from nearfar.errors import BadInput, Missing

KEPT = Credentials("n" * 40, "o" * 40, "engine-key", "g" * 40)
SERVED = Served("http://127.0.0.1:8000", "mock", "up-key", "rev-1", "hash-1", 2048)


def read_back(served: Served = SERVED) -> settings.Settings:
    given = wiring.edge_settings(KEPT, served, "redis://127.0.0.1:6379/0")
    lower = {name.removeprefix("NEARFAR_").lower(): value for name, value in given.items()}
    return settings.from_variables(lower)


def test_the_edge_understands_its_settings() -> None:
    read = read_back()
    route = read.routes.models["mock"]
    assert ("rev-1", "hash-1", 2048) == (route.revision, route.serving_hash, route.context_tokens)
    assert "127.0.0.1:8000" == route.upstream.authority
    assert {"gpu": "up-key"} == read.upstream_keys
    assert ("n" * 40, "o" * 40) == read.key_secrets


def test_a_server_without_a_key_is_asked_without_one() -> None:
    assert {} == read_back(Served("http://127.0.0.1:8000", "mock")).upstream_keys


def test_the_edge_has_the_gates_secret_only_where_a_gate_stands() -> None:
    assert "" == read_back().gate_secret
    gated = read_back(replace(SERVED, gated=True, kind="vllm"))
    assert "g" * 40 == gated.gate_secret
    assert "vllm" == gated.routes.models["mock"].upstream.kind
    assert "openai" == read_back().routes.models["mock"].upstream.kind


def test_our_own_vllm_has_the_gate_in_it() -> None:
    served = engine.served(engine.local_spec("cpu-small").gated(), "http://127.0.0.1:1", "k")
    assert (True, "vllm") == (served.gated, served.kind)
    assert not engine.served(engine.local_spec("cpu-small"), "http://127.0.0.1:1", "k").gated


def test_public_settings_of_the_caller_reach_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFAR_CACHE_TTL_S", "7")
    assert 7 == read_back().cache_ttl_s


def test_secret_settings_of_the_caller_do_not_reach_the_edge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEARFAR_KEY_SECRET", "z" * 40)
    assert "n" * 40 == read_back().key_secret


def test_the_printed_key_is_for_chat_and_trace_with_all_models() -> None:
    claims, key = wiring.local_key("n" * 40)
    assert claims == keys.verify(key, ("n" * 40,), time.time())
    assert ("chat", "trace") == claims.permissions
    assert claims.allows_model("any")


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("foo", "mock"),
        ("http://", "mock"),
        ("http://host:port", "mock"),
        ("http://host/?a=b", "mock"),
        ("http://host", None),
    ],
)
def test_an_upstream_without_address_or_model_is_bad_input(url: str, model: str | None) -> None:
    with pytest.raises(BadInput):
        wiring.upstream(url, None, model, 0)


def test_an_upstream_that_answers_anything_is_reachable() -> None:
    with serving(HttpEdge()) as edge:
        wiring.check_reachable(Served(edge.endpoint, "mock"))


def test_an_upstream_that_refuses_the_key_is_told_at_once() -> None:
    with UpstreamThread(api_key="up-key") as fake:
        wiring.check_reachable(Served(fake.url, "mock", "up-key"))
        wiring.check_reachable(Served(f"{fake.url}/v1/", "mock", "up-key"))
        for key in ("", "another"):
            with pytest.raises(BadInput, match="refuses the key"):
                wiring.check_reachable(Served(fake.url, "mock", key))


def test_the_printed_key_may_keep_its_id() -> None:
    claims, _ = wiring.local_key("n" * 40, "0123456789ab")
    assert "0123456789ab" == claims.key_id


def test_an_upstream_where_nobody_listens_is_missing() -> None:
    with pytest.raises(Missing, match="Nothing answers at --upstream"):
        wiring.check_reachable(Served("http://127.0.0.1:1", "mock"))


WRONG = {
    "NEARFAR_TEMPLATE": "canary@9",
    "NEARFAR_CACHE_TTL_S": "soon",
    "NEARFAR_TENANTS": '{"acme": {"rpm": -1}, "other": {"speed": 1}}',
    "NEARFAR_GATE_MAX_RUNNING": "many",
    "NEARFAR_GATE_WITHOUT_REDIS": "ajar",
    "NEARFAR_GATE_MAX_RUNING": "16",
}


def test_every_setting_that_edge_or_gate_would_refuse_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in WRONG.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadInput) as caught:
        wiring.check_settings()
    assert not [name for name in WRONG if f"{name} " not in caught.value.message]
    assert all(tenant in caught.value.message for tenant in ("acme", "other"))
    assert not [v for v in ("canary", "soon", "many", "ajar") if v in caught.value.message]


def test_settings_that_are_right_are_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFAR_TENANTS", '{"*": {"rpm": 5}}')
    monkeypatch.setenv("NEARFAR_GATE_MAX_RUNNING", "4")
    monkeypatch.setenv("NEARFAR_GATE_REDIS", "redis://127.0.0.1:1/0")
    wiring.check_settings()
