"""The admin way: list, register and revoke keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edge_frontend import admin, revocations
from fakes.edge import WALL_S, Edge, Response, chat, make_key, run

ADMIN = make_key(("admin",), key_id="root", tenant="ops")
EXPIRES_S = int(WALL_S) + 3_600
DESCRIBED: dict[str, Any] = {
    "tenant": "acme",
    "expires_at": EXPIRES_S,
    "models": ["*"],
    "permissions": ["chat"],
    "created_at": int(WALL_S),
    "label": "a laptop",
}


def listed(edge: Edge) -> dict[str, Any]:
    response = run(edge.get("/admin/keys", key=ADMIN))
    assert 200 == response.status
    document: dict[str, Any] = response.json()
    return document


def put(edge: Edge, key_id: str = "k1", **changes: Any) -> Response:
    body = {name: value for name, value in (DESCRIBED | changes).items() if value is not ...}
    return run(edge.ask(body, method="PUT", path=f"/admin/keys/{key_id}", key=ADMIN))


def delete(edge: Edge, key_id: str = "k1", query: str = "") -> Response:
    return run(edge.ask(None, method="DELETE", path=f"/admin/keys/{key_id}{query}", key=ADMIN))


def stored(edge: Edge, name: str) -> Any:
    assert edge.store is not None
    value = edge.store.peek(name)
    return None if value is None else json.loads(value)


def test_a_new_edge_knows_no_keys() -> None:
    assert {"keys": [], "revoked": {}} == listed(Edge.with_store())


def test_a_registered_key_is_listed_with_what_is_known_of_it() -> None:
    edge = Edge.with_store()
    assert 200 == put(edge).status
    assert {"keys": [{"key_id": "k1", **DESCRIBED}], "revoked": {}} == listed(edge)


def test_every_change_is_answered_with_the_list_as_it_is_then() -> None:
    edge = Edge.with_store()
    assert ["k1"] == [entry["key_id"] for entry in put(edge).json()["keys"]]
    assert {"k1": WALL_S} == delete(edge).json()["revoked"]


def test_registering_again_replaces_and_keeps_the_others() -> None:
    edge = Edge.with_store()
    put(edge, "k1")
    put(edge, "k2")
    put(edge, "k1", label="new")
    assert [("k1", "new"), ("k2", "a laptop")] == [
        (entry["key_id"], entry["label"]) for entry in listed(edge)["keys"]
    ]


def test_neither_key_nor_secret_nor_anything_else_is_kept() -> None:
    edge = Edge.with_store()
    put(edge, key=make_key(), secret="canary")
    assert "canary" not in json.dumps([listed(edge), stored(edge, admin.KEYS)])
    assert make_key() not in json.dumps(stored(edge, admin.KEYS))


def test_a_revoked_key_is_turned_away_at_once_here_and_soon_elsewhere() -> None:
    edge = Edge.with_store()
    other = edge.beside()
    assert 200 == run(edge.ask(chat())).status
    assert 200 == run(other.ask(chat())).status
    delete(edge)
    assert 401 == run(edge.ask(chat())).status
    edge.clock.advance(60_000)
    assert 401 == run(other.ask(chat())).status


def test_a_key_may_be_revoked_from_a_second_on() -> None:
    edge = Edge.with_store()
    at = int(WALL_S) + 100
    assert {"k1": float(at)} == delete(edge, query=f"?at={at}").json()["revoked"]
    assert 200 == run(edge.ask(chat())).status
    edge.clock.advance(100_000)
    assert 401 == run(edge.ask(chat())).status


@pytest.mark.parametrize(
    "query", ["?at=soon", "?at=-1", "?at=1.5", "?at=1e9", "?at=%D9%A3", "?at=" + "9" * 400]
)
def test_a_second_that_is_none_is_refused(query: str) -> None:
    edge = Edge.with_store()
    response = delete(edge, query=query)
    assert (400, "at") == (response.status, response.error["param"])
    assert {} == listed(edge)["revoked"]


def test_a_key_that_was_never_registered_can_be_revoked() -> None:
    edge = Edge.with_store()
    assert {"gone": WALL_S} == delete(edge, "gone").json()["revoked"]


def test_what_has_expired_is_forgotten_with_its_revocation() -> None:
    edge = Edge.with_store()
    put(edge, "old", expires_at=int(WALL_S) + 10)
    delete(edge, "old")
    put(edge, "new")
    assert {"old"} == set(listed(edge)["revoked"])
    edge.clock.advance(11_000)
    put(edge, "newer")
    assert ["new", "newer"] == [entry["key_id"] for entry in listed(edge)["keys"]]
    assert {} == listed(edge)["revoked"]


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": ...}, {"expires_at": ...}, {"models": ...}, {"permissions": ...},
        {"tenant": "a b"}, {"tenant": 5}, {"tenant": None},
        {"expires_at": "soon"}, {"expires_at": 1.5}, {"expires_at": 0}, {"expires_at": True},
        {"models": []}, {"models": "*"}, {"models": [1]}, {"models": [[]]}, {"models": None},
        {"permissions": ["root"]}, {"permissions": "chat"}, {"permissions": [[]]},
    ],
)  # fmt: skip
def test_a_description_that_no_key_has_is_refused(changes: dict[str, Any]) -> None:
    edge = Edge.with_store()
    response = put(edge, **changes)
    assert (400, "invalid_request") == (response.status, response.error["code"])
    assert {"keys": [], "revoked": {}} == listed(edge)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"null", b"[" * 9_000, b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    edge = Edge.with_store()
    response = run(edge.ask(body, method="PUT", path="/admin/keys/k1", key=ADMIN))
    assert (400, "invalid_request") == (response.status, response.error["code"])


def test_a_large_body_is_refused() -> None:
    assert 413 == put(Edge.with_store(), label="x" * admin.MAX_BODY_BYTES).status


@pytest.mark.parametrize("key_id", ["a%20b", "%2e%2e", "-a", "a" * 65, "a=b", "ä"])
def test_a_name_that_no_key_has_is_refused(key_id: str) -> None:
    edge = Edge.with_store()
    assert (400, 400) == (put(edge, key_id).status, delete(edge, key_id).status)
    assert {"keys": [], "revoked": {}} == listed(edge)


@pytest.mark.parametrize("permissions", [("chat",), ("chat", "trace"), ()])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/admin/keys"), ("PUT", "/admin/keys/k1"), ("DELETE", "/admin/keys/k1")],
)
def test_only_the_permission_admin_gets_in(
    method: str, path: str, permissions: tuple[str, ...]
) -> None:
    edge = Edge.with_store()
    key = make_key(permissions)
    response = run(edge.ask(DESCRIBED, method=method, path=path, key=key))
    assert (403, "permission_denied") == (response.status, response.error["code"])
    assert edge.store is not None
    assert not edge.store.batches


def test_a_revoked_admin_key_changes_nothing_any_more() -> None:
    edge = Edge.with_store()
    delete(edge, "root")
    for machine in (edge, edge.beside()):
        assert 401 == put(machine, "k9").status
        assert 401 == delete(machine, "k9").status
        assert 401 == run(machine.get("/admin/keys", key=ADMIN)).status
    assert stored(edge, admin.KEYS) in (None, {})
    assert {"root"} == set(stored(edge, revocations.KEY))


@pytest.mark.parametrize("down", [True, False])
def test_without_a_store_the_list_is_not_available(down: bool) -> None:
    edge = Edge.with_store() if down else Edge()
    if edge.store is not None:
        edge.store.down = True
    for response in (run(edge.get("/admin/keys", key=ADMIN)), put(edge), delete(edge)):
        assert (503, "misconfigured") == (response.status, response.error["code"])


@pytest.mark.parametrize("value", [b"", b"canary", b"[]", b"7", b'{"k1":5}', b"[" * 9_000, b"\xff"])
def test_a_stored_list_that_is_none_stands_in_the_way_of_no_revocation(value: bytes) -> None:
    edge = Edge.with_store()
    assert edge.store is not None
    edge.store.put(admin.KEYS, value)
    edge.store.put(revocations.KEY, value)
    assert "k2" in delete(edge, "k2").json()["revoked"]
    assert 401 == run(edge.ask(chat(), key=make_key(key_id="k2"))).status


def test_the_list_outlives_every_key_that_is_made() -> None:
    edge = Edge.with_store()
    put(edge, expires_at=int(WALL_S) + 2 * 365 * 86_400)
    delete(edge)
    edge.clock.advance(365 * 86_400_000.0)
    assert stored(edge, admin.KEYS)
    assert stored(edge, revocations.KEY)


def test_what_an_admin_does_stands_in_the_log_and_what_was_sent_does_not() -> None:
    edge = Edge.with_store()
    put(edge, label="canary")
    line = json.loads(edge.logs[-1])
    assert ("ops", 200) == (line["tenant"], line["status"])
    assert "canary" not in edge.logs[-1]
