"""nearfar keys, against a fake edge that checks keys with the real code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from edge_frontend import keys
from edge_frontend.limits import NO_LIMITS, NORMAL, Limits
from fakes.http_edge import SECRET, HttpEdge, serving
from fakes.redis_process import RedisServer
from gpu_backend.gate import limiter


@pytest.fixture
def edge() -> Iterator[HttpEdge]:
    with serving(HttpEdge()) as fake:
        yield fake


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def key(
    run: Callable[..., Any], edge: HttpEdge, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Run `nearfar keys` for the fake edge, by its own secret."""
    monkeypatch.setenv("NEARFAR_KEY_SECRET", SECRET)

    def call(command: str, *rest: str) -> Any:
        return run("keys", command, *rest, "--endpoint", edge.endpoint)

    return call


def claims_of(text: str) -> keys.Claims:
    return keys.verify(text, (SECRET,), time.time())


def test_a_new_key_is_shown_once_on_stdout_and_carries_its_claims(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    ran = key("create", "--tenant", "acme", "--expires", "2h", "--model", "a", "--model", "b")
    assert 0 == ran.code
    claims = claims_of(ran.out.strip())
    assert ("acme", ("a", "b"), ("chat",)) == (claims.tenant, claims.models, claims.permissions)
    assert 7200 == pytest.approx(claims.expires_at - time.time(), abs=30)
    assert ran.out.strip() not in ran.err
    assert [claims.key_id] == list(edge.registered)


def test_the_edge_is_told_the_claims_and_never_the_key(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    made = key("create", "--tenant", "acme", "--label", "a note", "--json").document
    told = edge.registered[made["key_id"]]
    facts = {"tenant", "expires_at", "models", "permissions", "limits", "priority"}
    assert facts | {"created_at", "label"} == set(told)
    assert made["api_key"] not in json.dumps(told)


def test_permissions_are_added_one_by_one(key: Callable[..., Any]) -> None:
    made = key("create", "--tenant", "t", "--permission", "chat", "--permission", "trace", "--json")
    assert ["chat", "trace"] == made.document["permissions"]


LIMITED = ("--rpm", "60", "--tpm", "2000", "--parallel", "4", "--monthly-tokens", "100000")


def test_limits_and_priority_stand_in_the_key_and_in_the_list(key: Callable[..., Any]) -> None:
    made = key(
        "create", "--tenant", "acme", *LIMITED, "--priority", "interactive", "--json"
    ).document
    claims = claims_of(made["api_key"])
    assert (Limits(60, 2_000, 4, 100_000), 2) == (claims.limits, claims.priority)
    limits = {"rpm": 60, "tpm": 2_000, "par": 4, "month": 100_000}
    assert (limits, "interactive") == (made["limits"], made["priority"])
    (entry,) = key("list", "--json").document["keys"]
    assert (limits, "interactive") == (entry["limits"], entry["priority"])
    assert "rpm=60,tpm=2000,par=4,month=100000,interactive" in key("list").out


def test_a_key_without_limits_says_so(key: Callable[..., Any]) -> None:
    made = key("create", "--tenant", "acme", "--json").document
    assert (NO_LIMITS, NORMAL) == (
        claims_of(made["api_key"]).limits,
        claims_of(made["api_key"]).priority,
    )
    assert ({}, "normal") == (made["limits"], made["priority"])


def test_rotating_keeps_limits_but_for_those_that_are_given(key: Callable[..., Any]) -> None:
    made = key("create", "--tenant", "acme", *LIMITED, "--priority", "batch", "--json").document
    same = key("rotate", made["key_id"], "--json").document
    assert (made["limits"], "batch") == (same["limits"], same["priority"])
    other = key("rotate", same["key_id"], "--rpm", "0", "--priority", "normal", "--json").document
    assert (made["limits"] | {"rpm": 0}, "normal") == (other["limits"], other["priority"])
    assert Limits(0, 2_000, 4, 100_000) == claims_of(other["api_key"]).limits


def test_the_gate_is_told_of_what_is_revoked_and_keeps_what_others_told(
    key: Callable[..., Any], store: RedisServer
) -> None:
    held = {"from another edge": 5.0}
    with redis.Redis.from_url(store.url) as client:
        client.set("nf:1:revoked", json.dumps(held))
        assert 0 == key("revoke", "k9", "--gate-redis", store.url).code
        made = key("create", "--tenant", "acme", "--json").document
        assert 0 == key("rotate", made["key_id"], "--gate-redis", store.url).code
        known = limiter.revoked(client.get("nf:1:revoked"))
    assert {*held, "k9", made["key_id"]} == set(known)
    assert known["k9"] <= time.time() < known[made["key_id"]]


def test_a_list_at_the_gate_that_is_none_is_replaced(
    key: Callable[..., Any], store: RedisServer
) -> None:
    with redis.Redis.from_url(store.url) as client:
        for broken in ("", "{", "[1]"):
            client.set("nf:1:revoked", broken)
            assert 0 == key("revoke", "k9", "--gate-redis", store.url).code
            assert ["k9"] == list(limiter.revoked(client.get("nf:1:revoked")))


def test_a_gate_that_cannot_be_told_is_said_though_the_edge_knows(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    ran = key("revoke", "k9", "--gate-redis", "redis://127.0.0.1:1/1")
    assert (3, "") == (ran.code, ran.out)
    assert "The gate's Redis does not answer" in ran.err
    assert ["k9"] == list(edge.revoked)


def test_a_subjects_tokens_are_revoked_by_its_key_id(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    assert 0 == key("revoke", "login~0123456789abcdef").code
    assert ["login~0123456789abcdef"] == list(edge.revoked)


def test_a_revoked_key_is_listed_as_such(key: Callable[..., Any]) -> None:
    made = key("create", "--tenant", "acme", "--json").document
    assert 0 == key("revoke", made["key_id"]).code
    (entry,) = key("list", "--json").document["keys"]
    assert (made["key_id"], "revoked") == (entry["key_id"], entry["status"])
    assert "revoked" in key("list").out


def test_a_key_that_was_revoked_and_never_registered_is_listed(
    key: Callable[..., Any],
) -> None:
    key("revoke", "unheard-of")
    (entry,) = key("list", "--json").document["keys"]
    assert ("unheard-of", "revoked", None) == (
        entry["key_id"],
        entry["status"],
        entry["expires_at"],
    )
    assert "unheard-of" in key("list").out


def test_rotating_makes_the_same_claims_again_and_ends_the_old_key_later(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    old = key("create", "--tenant", "acme", "--model", "a", "--expires", "9d", "--json").document
    new = key("rotate", old["key_id"], "--grace", "1h", "--json").document
    assert old["key_id"] != new["key_id"]
    assert ("acme", ["a"], ["chat"]) == (new["tenant"], new["models"], new["permissions"])
    assert new["expires_at"] == pytest.approx(old["expires_at"], abs=30)
    assert 3600 == pytest.approx(edge.revoked[old["key_id"]] - time.time(), abs=30)
    statuses = {
        entry["key_id"]: entry["status"] for entry in key("list", "--json").document["keys"]
    }
    assert "valid" == statuses[new["key_id"]]
    assert statuses[old["key_id"]].startswith("ends ")


def test_rotating_without_grace_ends_the_old_key_now(
    key: Callable[..., Any], edge: HttpEdge
) -> None:
    old = key("create", "--tenant", "acme", "--json").document
    assert 0 == key("rotate", old["key_id"], "--grace", "0s").code
    assert time.time() + 1 >= edge.revoked[old["key_id"]]


def test_an_unknown_or_revoked_key_cannot_be_rotated(key: Callable[..., Any]) -> None:
    assert 1 == key("rotate", "unheard-of").code
    old = key("create", "--tenant", "acme", "--json").document
    key("revoke", old["key_id"])
    ran = key("rotate", old["key_id"])
    assert 1 == ran.code
    assert "is revoked" in ran.err


def test_rotating_the_secret_of_a_deployed_edge_prints_what_to_set(
    key: Callable[..., Any],
) -> None:
    printed = key("rotate", "--secret", "--json").document
    assert SECRET == printed["NEARFAR_KEY_SECRET_PREVIOUS"]
    assert SECRET != printed["NEARFAR_KEY_SECRET"]
    assert keys.MIN_SECRET_CHARS <= len(printed["NEARFAR_KEY_SECRET"])


def test_rotating_the_local_secret_keeps_the_old_one_as_previous(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    assert 0 == run("keys", "rotate", "--secret").code
    path = tmp_path / "run" / "secrets.json"
    first = json.loads(path.read_text())
    ran = run("keys", "rotate", "--secret")
    second = json.loads(path.read_text())
    assert first["key_secret"] == second["key_secret_previous"]
    assert "restart" in ran.out
    assert second["key_secret"] not in ran.out + ran.err


def test_another_secret_than_the_edges_is_told(
    run: Callable[..., Any], edge: HttpEdge, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("o" * 40)
    ran = run("keys", "list", "--endpoint", edge.endpoint, "--secret-file", str(secret))
    assert 1 == ran.code
    assert "does not accept the operator's secret" in ran.err


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ("create",)),
        (2, ("create", "--tenant", "a b")),
        (2, ("create", "--tenant", "a", "--expires", "soon")),
        (2, ("create", "--tenant", "a", "--expires", "0s")),
        (2, ("create", "--tenant", "a", "--permission", "fly")),
        (2, ("create", "--tenant", "a", "--rpm", "-1")),
        (2, ("create", "--tenant", "a", "--tpm", str(2**60))),
        (2, ("create", "--tenant", "a", "--priority", "vip")),
        (2, ("revoke", "k9", "--gate-redis", "nonsense")),
        (2, ("rotate",)),
        (2, ("rotate", "kid", "--secret")),
        (2, ("list", "--secret-file", "/does/not/exist")),
    ],
)
def test_bad_input_is_one_line_with_the_next_step(
    key: Callable[..., Any], code: int, words: tuple[str, ...]
) -> None:
    ran = key(*words)
    assert code == ran.code
    assert "" == ran.out
    first, second = ran.err.splitlines()
    assert first.startswith("nearfar: ")
    assert second.startswith("Next step: ")


def test_without_a_local_stack_or_endpoint_the_stack_is_missing(run: Callable[..., Any]) -> None:
    ran = run("keys", "list")
    assert 3 == ran.code
    assert "No local stack is running" in ran.err


def test_a_short_secret_makes_no_key(
    run: Callable[..., Any], edge: HttpEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARFAR_KEY_SECRET", "short")
    ran = run("keys", "create", "--tenant", "a", "--endpoint", edge.endpoint)
    assert 2 == ran.code
    assert "at least 32 characters" in ran.err
