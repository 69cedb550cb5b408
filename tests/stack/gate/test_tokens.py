"""Tokens at the real component: what must not open the door, and keys that change or are away."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from edge_frontend.limits import Limits
from fakes import issuer
from stack.caller import CHAT, Caller
from stack.calls import Calls
from stack.edges import Edge
from stack.whole import Whole

LEEWAY_S = 10


@dataclass
class KeyServer:
    """A key server on the real network, whose keys a test changes and which it may take away."""

    kids: list[str] = field(default_factory=lambda: ["k1"])
    away: bool = False
    asked: int = 0
    url: str = ""


@contextmanager
def serving(keys: KeyServer) -> Iterator[KeyServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked += 1
            body = json.dumps({"keys": [issuer.jwk(kid) for kid in keys.kids]}).encode()
            self.send_response(503 if keys.away else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    keys.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
    try:
        yield keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with serving(KeyServer()) as found:
        yield found


class Doors:
    """Edges that take this key server's tokens, each under an issuer's name of its own."""

    def __init__(self, whole: Whole, keys: KeyServer) -> None:
        self._whole, self._keys = whole, keys
        self.started: list[Edge] = []

    def open(self, *, reuse_count: int | None = None, **more: Any) -> Edge:
        known = json.loads(issuer.settings(jwks_url=self._keys.url, leeway_s=LEEWAY_S, **more))
        name = f"login-{secrets.token_hex(4)}"
        issuers = json.dumps({name: known["login"]})
        self.started.append(self._whole.edge(reuse_count=reuse_count, issuers=issuers))
        return self.started[-1]


@pytest.fixture
def doors(whole: Whole, keys: KeyServer) -> Iterator[Doors]:
    found = Doors(whole, keys)
    yield found
    for each in found.started:
        whole.end(each)


def said(**changes: Any) -> dict[str, Any]:
    """A good token's claims, from now."""
    return issuer.claims(**{"exp": int(time.time()) + 300} | changes)


def ask(at: Edge, credential: str, text: str = "hello") -> int:
    body = {"model": "mock", "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {credential}"}
    with httpx.Client(trust_env=False, timeout=20) as client:
        return client.post(at.url + CHAT, json=body, headers=headers).status_code


@pytest.mark.fault(11)
def test_what_must_not_open_the_door_does_not(doors: Doors, keys: KeyServer) -> None:
    at = doors.open()
    now = int(time.time())
    good = {
        "as it is": issuer.token(said()),
        "a list that holds our aud": issuer.token(said(aud=["other", "nearfar"])),
        "expired within the leeway": issuer.token(said(exp=now - 5)),
        "not before within the leeway": issuer.token(said(nbf=now + 5)),
    }
    wrong = {
        "aud": issuer.token(said(aud="other")),
        "a list without our aud": issuer.token(said(aud=["other", "more"])),
        "no aud": issuer.token(said(aud=None)),
        "iss": issuer.token(said(iss="https://elsewhere.test")),
        "no iss": issuer.token(said(iss=None)),
        "none": issuer.token(said(), algorithm="none"),
        "NonE": issuer.token(said(), algorithm="NonE"),
        "HS256 with the public key": issuer.token(said(), algorithm="HS256"),
        "HS256 that says RS256": issuer.token(said(), algorithm="HS256", alg="RS256"),
        "no exp": issuer.token(said(exp=None)),
        "expired": issuer.token(said(exp=now - LEEWAY_S - 5)),
        "not yet": issuer.token(said(nbf=now + LEEWAY_S + 30)),
        "crit": issuer.token(said(), crit=["exp"]),
        "crit that is unknown": issuer.token(said(), crit=["x-new"], x_new=1),
        "another's key": issuer.token(said(), signed_by="another"),
        "an unknown kid": issuer.token(said(), kid="k2"),
    }
    assert dict.fromkeys(good, 200) == {name: ask(at, token) for name, token in good.items()}
    assert dict.fromkeys(wrong, 401) == {name: ask(at, token) for name, token in wrong.items()}
    for token in wrong.values():
        assert token.split(".")[2][:20] not in at.log_text() or not token.split(".")[2]


@pytest.mark.fault(12)
class TestRotation:
    @pytest.mark.parametrize("reuse_count", [None, 1], ids=["warm", "fresh"])
    def test_a_new_key_causes_one_refetch_and_passes(
        self, doors: Doors, keys: KeyServer, reuse_count: int | None
    ) -> None:
        at = doors.open(reuse_count=reuse_count)
        assert [200, 200] == [ask(at, issuer.token(said())) for _ in range(2)]
        assert 1 == keys.asked
        keys.kids = ["k1", "k2"]
        assert 200 == ask_until(at, issuer.token(said(), kid="k2"))
        fetched = keys.asked
        assert [200, 200] == [ask(at, issuer.token(said(), kid=kid)) for kid in ("k1", "k2")]
        assert fetched == keys.asked

    def test_two_hundred_made_up_kids_cause_few_fetches(
        self, doors: Doors, keys: KeyServer
    ) -> None:
        at = doors.open()
        assert 200 == ask(at, issuer.token(said()))
        good = issuer.token(said()).split(".")
        for number in range(200):
            head = issuer.encode(json.dumps({"alg": "RS256", "kid": f"made-up-{number}"}).encode())
            assert 401 == ask(at, ".".join([head, *good[1:]]))
        assert keys.asked <= 4
        assert 200 == ask(at, issuer.token(said()))

    @pytest.mark.parametrize("reuse_count", [None, 1], ids=["warm", "fresh"])
    def test_the_last_good_keys_survive_an_outage(
        self, doors: Doors, keys: KeyServer, reuse_count: int | None
    ) -> None:
        at = doors.open(reuse_count=reuse_count)
        assert 200 == ask(at, issuer.token(said()))
        keys.away = True
        assert 401 == ask(at, issuer.token(said(), kid="k2"))
        assert [200] * 3 == [ask(at, issuer.token(said(sub=f"s{n}"))) for n in range(3)]


def ask_until(at: Edge, credential: str) -> int:
    """The status once a refetch is allowed again: they keep a distance from one another."""
    deadline = time.monotonic() + 40
    while (status := ask(at, credential)) == 401 and time.monotonic() < deadline:
        time.sleep(0.5)
    return status


@pytest.mark.fault(9)
def test_a_subject_with_the_name_of_a_key_shares_nothing_with_it(
    doors: Doors, keys: KeyServer, caller: Caller, calls: Calls
) -> None:
    at = doors.open()
    body = caller.body("the same question")
    limited = Caller(caller.tenant, caller.marker, caller.key_id, limits=Limits(rpm=50))
    taken = issuer.token(said(sub=caller.key_id, org={"id": caller.tenant}))
    with httpx.Client(trust_env=False, timeout=20) as client:
        answers = [
            client.post(at.url + CHAT, json=body, headers={"authorization": f"Bearer {credential}"})
            for credential in (limited.key, taken)
        ]
    assert [(200, "miss")] * 2 == [(a.status_code, a.headers["x-cache"]) for a in answers]
    assert 2 == len(calls.seen)
    assert "x-ratelimit-limit-requests" in answers[0].headers
    assert "x-ratelimit-limit-requests" not in answers[1].headers


@pytest.mark.fault(13)
def test_the_limit_of_a_subject_is_one_wherever_it_says_it_comes_from(
    doors: Doors, keys: KeyServer
) -> None:
    at = doors.open(claims={"tenant": ["org", "id"], "permissions": "scope", "rpm": "rpm"})
    subject = secrets.token_hex(6)
    found = []
    for number in range(6):
        token = issuer.token(said(sub=subject, rpm=2, jti=str(number)))
        body = {"model": "mock", "messages": [{"role": "user", "content": f"q {number}"}]}
        head = {"authorization": f"Bearer {token}", "x-forwarded-for": f"203.0.113.{number}"}
        with httpx.Client(trust_env=False, timeout=20) as client:
            found.append(client.post(at.url + CHAT, json=body, headers=head).status_code)
    assert [200] * 2 + [429] * 4 == found
