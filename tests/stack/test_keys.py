"""Keys: revoked everywhere in time, two secrets during a rotation; and what readiness says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from edge_frontend.keys import Claims
from fakes.upstream import UpstreamThread
from nearfar.admin import Admin
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import SECRET, Edge, Edges, settings
from stack.stores import RedisServer

NEW_SECRET = "the-operators-new-secret-of-forty-chars-02"
KNOWN_WITHIN_S = 35


def status(edge: Edge, who: Caller, **fields: Any) -> int:
    return who.post(edge, who.body(**fields)).status_code


class TestRevoked:
    def test_a_fresh_instance_knows_it_at_once(
        self, warm: Edge, fresh: Edge, caller: Caller, calls: Calls
    ) -> None:
        assert 200 == status(fresh, caller)
        Admin(warm.url, SECRET).revoke(caller.key_id)
        assert [401] * 3 == [status(fresh, caller, **f) for f in ({}, {"stream": True}, {"n": 2})]
        assert 401 == status(fresh, caller, temperature=1)
        assert 401 == caller.get(fresh, "/v1/models").status_code
        assert 200 == status(fresh, caller.other())
        assert 1 == len(calls.seen)

    def test_the_instance_that_was_told_knows_it_at_once(
        self, own_edges: Edges, common: dict[str, str], caller: Caller
    ) -> None:
        alone = own_edges.start(common)  # one instance, since nothing is asked at the same time
        assert 200 == status(alone, caller)
        Admin(alone.url, SECRET).revoke(caller.key_id)
        assert 401 == status(alone, caller)
        assert 401 == caller.get(alone, "/v1/models").status_code

    def test_a_warm_instance_of_another_edge_knows_it_in_time(
        self, warm: Edge, other: Edge, caller: Caller
    ) -> None:
        assert 200 == status(other, caller)
        Admin(warm.url, SECRET).revoke(caller.key_id)
        deadline = time.monotonic() + KNOWN_WITHIN_S
        while status(other, caller) != 401:
            assert time.monotonic() < deadline, f"not known after {KNOWN_WITHIN_S} s"
            time.sleep(0.5)

    def test_a_key_may_end_later(self, warm: Edge, fresh: Edge, caller: Caller) -> None:
        Admin(warm.url, SECRET).revoke(caller.key_id, int(time.time()) + 2)
        assert 200 == status(fresh, caller)
        time.sleep(2.1)
        assert 401 == status(fresh, caller)

    def test_a_revoked_admin_key_changes_nothing_more(
        self, edge: Edge, fresh: Edge, caller: Caller
    ) -> None:
        Admin(edge.url, SECRET).revoke(caller.key_id)
        assert 401 == caller.get(fresh, "/admin/keys").status_code

    def test_the_list_outlives_its_store_on_a_warm_instance(
        self, own_edges: Edges, own_store: RedisServer, upstream: UpstreamThread, caller: Caller
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, own_store.url))
        Admin(edge.url, SECRET).revoke(caller.key_id)
        own_store.kill()
        assert [401, 200] == [status(edge, caller), status(edge, caller.other())]


class TestAdmin:
    def test_registered_keys_are_listed_without_a_secret(self, edge: Edge, caller: Caller) -> None:
        admin = Admin(edge.url, SECRET)
        answer = caller.get(edge, "/admin/keys")
        assert caller.key_id not in answer.text
        claims_of = caller.other(permissions=("chat",))
        claims = Claims(claims_of.key_id, caller.tenant, int(time.time()) + 60)
        admin.register(claims, label="a test")
        (entry,) = [e for e in admin.entries() if e.key_id == claims_of.key_id]
        assert (caller.tenant, "a test") == (entry.tenant, entry.label)
        assert "valid" == entry.status(time.time())
        admin.revoke(entry.key_id)
        (entry,) = [e for e in admin.entries() if e.key_id == claims_of.key_id]
        assert "revoked" == entry.status(time.time())
        assert "nf_" not in caller.get(edge, "/admin/keys").text

    def test_the_admin_way_is_closed_to_other_keys(self, edge: Edge, caller: Caller) -> None:
        chatting = caller.other(permissions=("chat", "trace"))
        assert 403 == chatting.get(edge, "/admin/keys").status_code
        wrong = caller.other(secret=NEW_SECRET)
        assert 401 == wrong.get(edge, "/admin/keys").status_code

    def test_an_admin_key_may_not_chat(self, edge: Edge, caller: Caller, calls: Calls) -> None:
        assert 403 == status(edge, caller.other(permissions=("admin",)))
        assert [] == calls.seen


@pytest.mark.parametrize("reuse_count", [None, 1], ids=["warm", "fresh"])
def test_two_secrets_are_valid_during_a_rotation(
    own_edges: Edges, upstream: UpstreamThread, caller: Caller, reuse_count: int | None
) -> None:
    old, new = caller, caller.other(secret=NEW_SECRET)
    third = caller.other(secret="a-third-secret-that-was-never-anybodys-03")
    models = {"mock": upstream.url}
    during = own_edges.start(
        settings(models, "none", key_secret=NEW_SECRET, key_secret_previous=SECRET),
        reuse_count=reuse_count,
    )
    assert [200, 200, 401] == [status(during, who) for who in (old, new, third)]
    after = own_edges.start(
        settings(models, "none", key_secret=NEW_SECRET), reuse_count=reuse_count
    )
    assert [401, 200, 401] == [status(after, who) for who in (old, new, third)]


class TestHealth:
    def test_both_say_yes_when_all_is_well(
        self, own_edges: Edges, upstream: UpstreamThread, store: RedisServer, caller: Caller
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, store.url))
        assert [200, 200] == [caller.get(edge, p).status_code for p in ("/healthz", "/readyz")]

    def test_readiness_names_the_store_that_is_down(
        self,
        own_edges: Edges,
        own_store: RedisServer,
        upstream: UpstreamThread,
        caller: Caller,
    ) -> None:
        edge = own_edges.start(settings({"mock": upstream.url}, own_store.url))
        own_store.kill()
        answer = caller.get(edge, "/readyz")
        assert (503, ["store"]) == (answer.status_code, answer.json()["not_ready"])
        assert 200 == caller.get(edge, "/healthz").status_code
        own_store.start()
        deadline = time.monotonic() + 5
        while caller.get(edge, "/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def test_readiness_names_the_upstream_that_is_down(self, edge: Edge, caller: Caller) -> None:
        answer = caller.get(edge, "/readyz")
        assert 503 == answer.status_code
        assert {"upstream gpu-closed", "upstream gpu-nowhere"} == set(answer.json()["not_ready"])
        assert "ok" == answer.json()["checks"]["store"]
        assert 200 == caller.get(edge, "/healthz").status_code

    def test_readiness_names_an_upstream_that_refuses_the_edges_key(
        self, own_edges: Edges, upstream: UpstreamThread, caller: Caller
    ) -> None:
        keys = '{"gpu-mock": "not-the-key-of-the-upstream"}'
        edge = own_edges.start(settings({"mock": upstream.url}, "none", upstream_keys=keys))
        answer = caller.get(edge, "/readyz")
        assert (503, ["upstream gpu-mock"]) == (answer.status_code, answer.json()["not_ready"])
        assert "not-the-key" not in answer.text + edge.log_text()

    def test_wrong_settings_are_named_and_no_value_of_them(
        self, own_edges: Edges, upstream: UpstreamThread, caller: Caller
    ) -> None:
        wanted = settings({"mock": upstream.url}, "none", key_secret="too-short", max_tokens="x")
        edge = own_edges.start(wanted, wait=False)
        deadline = time.monotonic() + 10
        while True:
            try:
                answer = caller.get(edge, "/healthz")
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert 503 == answer.status_code
        for name in ("NEARFAR_KEY_SECRET", "NEARFAR_MAX_TOKENS"):
            assert name in edge.log_text()
        assert "too-short" not in answer.text + edge.log_text()
