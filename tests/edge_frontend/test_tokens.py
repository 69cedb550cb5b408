"""A token of a configured issuer opens the door as a key does, and nothing else does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from edge_frontend import jwt, signatures
from fakes import issuer
from fakes.edge import WALL_S, Edge, Response, Scripted, chat, make_key, run
from gpu_backend import grant as gate

ADMIN = make_key(("admin",), key_id="root")
SECRET = "g" * 32


def an_edge(*kids: str, secret: str = "", **changes: Any) -> Edge:
    """An edge with one issuer, whose key server has these keys."""
    known = issuer.settings(**{"defaults": {"rpm": 7, "priority": "interactive"}} | changes)
    edge = Edge.with_store(issuers=known, gate_secret=secret)
    served = json.dumps({"keys": [issuer.jwk(kid) for kid in kids or ("k1",)]}).encode()
    edge.upstream.at["login.test"] = Scripted([served], headers=())
    return edge


def token(kid: str = "k1", **claims: Any) -> str:
    assert int(WALL_S) == issuer.NOW_S
    return issuer.token(issuer.claims(**claims), kid=kid)


def ask(edge: Edge, credential: str, text: str = "hi", **request: Any) -> Response:
    return run(edge.ask(chat(text), key=credential, **request))


def test_a_token_opens_the_door_with_its_tenant_limits_and_priority() -> None:
    edge = an_edge(secret=SECRET)
    response = ask(edge, token())
    assert response.log is not None
    assert (200, "login~acme") == (response.status, response.log["tenant"])
    value = dict(edge.upstream.calls[0].headers)["x-nearfar-grant"]
    read = gate.verify(value, [SECRET.encode()], edge.clock.wall_s())
    assert ("login~acme", 2, 7) == (read.tenant, read.priority, read.limits.rpm)
    assert read.key.startswith("login~")
    sent = dict(edge.upstream.calls[0].headers)
    assert b"Bearer upstream-key" == sent["authorization"], "the token goes to nobody"


def test_a_key_works_beside_it_and_asks_no_key_server() -> None:
    edge = an_edge()
    assert 200 == ask(edge, make_key()).status
    assert [] == edge.upstream.asked_elsewhere


@pytest.mark.parametrize(
    "credential",
    [
        "x", "a.b", "a.b.c", "a.b.c.d", "..", "nf_a.b.c", make_key(secret="x" * 40),
        issuer.token(algorithm="none"), issuer.token(issuer.claims(iss="https://evil.test")),
        issuer.token(issuer.claims(aud="other")), issuer.token(issuer.claims(exp=issuer.NOW_S)),
        issuer.token(signed_by="another"), issuer.token(crit=["exp"]),
    ],
)  # fmt: skip
def test_everything_else_is_401_and_says_not_why(credential: str) -> None:
    response = ask(an_edge(), credential)
    assert (401, "invalid_api_key") == (response.status, response.error["code"])
    assert "The API key is not valid or has expired." == response.error["message"]
    assert "www-authenticate" in response.headers


def test_without_issuers_a_token_is_no_key() -> None:
    assert 401 == ask(Edge.with_store(), token()).status


def test_a_subject_with_a_keys_name_has_nothing_of_the_keys() -> None:
    edge = an_edge()
    key = make_key(tenant="acme", key_id="dana")
    assert "miss" == ask(edge, key).headers["x-cache"]
    assert "miss" == ask(edge, token(sub="dana")).headers["x-cache"]
    assert "hit" == ask(edge, token(sub="other")).headers["x-cache"], "one tenant of the issuer"


def test_an_issuer_may_share_its_tenants_with_keys() -> None:
    edge = an_edge(shares_tenants=True)
    assert ["miss", "hit"] == [
        ask(edge, credential).headers["x-cache"] for credential in (make_key(), token())
    ]


def test_permissions_come_through_the_issuers_map() -> None:
    edge = an_edge()
    assert 403 == ask(edge, token(scope="openid")).status
    assert 403 == ask(edge, token(), headers={"x-nearfar-trace": "1"}).status
    traced = ask(edge, token(scope="llm.chat llm.trace"), headers={"x-nearfar-trace": "1"})
    assert "nearfar" in traced.json()
    assert 403 == run(edge.get("/admin/keys", key=token())).status
    assert 200 == run(edge.get("/v1/models", key=token())).status


def test_a_token_is_checked_once_and_remembered_until_it_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked, real = list[str](), signatures.decode

    def counting(given: str, *rest: Any) -> dict[str, Any]:
        checked.append(given)
        return real(given, *rest)

    monkeypatch.setattr(jwt, "decode", counting)
    edge = an_edge()
    held = token(exp=issuer.NOW_S + 100)
    assert [200, 200, 200] == [ask(edge, held).status for _ in range(3)]
    assert 1 == len(checked)
    edge.clock.advance(100_000)
    assert 401 == ask(edge, held).status


def test_a_revoked_subject_is_turned_away_with_every_token() -> None:
    edge = an_edge(secret=SECRET)
    ask(edge, token())
    value = dict(edge.upstream.calls[0].headers)["x-nearfar-grant"]
    key_id = gate.verify(value, [SECRET.encode()], edge.clock.wall_s()).key
    done = run(edge.ask(None, method="DELETE", path=f"/admin/keys/{key_id}", key=ADMIN))
    assert (200, [key_id]) == (done.status, list(done.json()["revoked"]))
    assert [401, 401] == [ask(edge, token()).status, ask(edge, token(jti="new")).status]
    assert 200 == ask(edge, token(sub="other")).status


@pytest.mark.parametrize("key_id", ["~x", "login~", "login~a~b", "a/b", "log in~x"])
def test_what_is_no_name_of_a_key_or_subject_is_not_revoked(key_id: str) -> None:
    done = run(an_edge().ask(None, method="DELETE", path=f"/admin/keys/{key_id}", key=ADMIN))
    assert done.status in (400, 404)


def test_the_issuers_keys_are_fetched_once_for_all_instances_of_a_store() -> None:
    edge = an_edge()
    for instance in (edge, edge.beside(), edge.beside()):
        assert 200 == ask(instance, token()).status
    (call,) = edge.upstream.asked_elsewhere
    assert ("https", "login.test", "/keys?v=1") == (call.scheme, call.authority, call.path)
    assert {"accept"} == {name for name, _ in call.headers}, "no key of ours goes there"


def test_a_new_key_of_the_issuer_is_fetched_when_a_token_names_it() -> None:
    edge = an_edge()
    assert 200 == ask(edge, token()).status
    rotated = json.dumps({"keys": [issuer.jwk("k1"), issuer.jwk("k2")]}).encode()
    edge.upstream.at["login.test"] = Scripted([rotated], headers=())
    assert 200 == ask(edge, token("k2")).status
    assert 2 == len(edge.upstream.asked_elsewhere)
    for number in range(50):
        assert 401 == ask(edge, issuer.token(kid=f"random{number}", signed_by="k1")).status
    assert 3 >= len(edge.upstream.asked_elsewhere)


def test_a_key_server_that_is_away_is_said_and_keys_go_on() -> None:
    edge = an_edge()
    edge.upstream.at["login.test"] = Scripted([b""], status=500)
    response = ask(edge, token())
    assert (503, "issuer_unavailable") == (response.status, response.error["code"])
    assert int(response.headers["retry-after"]) >= 1
    assert 200 == ask(edge, make_key()).status


def test_the_last_good_keys_serve_through_an_outage() -> None:
    edge = an_edge()
    assert 200 == ask(edge, token()).status
    edge.upstream.at["login.test"] = Scripted([b""], status=500)
    edge.clock.advance(3_600_000)
    late = token(exp=issuer.NOW_S + 7_200)
    assert 200 == ask(edge, late).status
    assert 200 == ask(edge.beside(), late).status


def test_a_request_with_a_key_never_comes_near_a_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a key was taken for a token")

    monkeypatch.setattr(jwt, "verify", never)
    monkeypatch.setattr(signatures, "read_keys", never)
    edge = Edge.with_store(issuers=issuer.settings())
    assert [200, 401] == [ask(edge, make_key()).status, ask(edge, "a.b").status]


def test_tokens_of_many_at_once_are_told_apart() -> None:
    edge = an_edge(claims={"tenant": "sub", "permissions": "scope"})

    async def all_of_them() -> list[Response]:
        asked = [edge.ask(chat("same"), key=token(sub=f"t{number}")) for number in range(12)]
        return list(await asyncio.gather(*asked))

    tenants = {response.log["tenant"] for response in run(all_of_them()) if response.log}
    assert {f"login~t{number}" for number in range(12)} >= tenants
    assert 12 == len(edge.upstream.calls)
