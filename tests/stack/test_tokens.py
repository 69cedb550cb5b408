"""Tokens of another issuer at the real component, whose keys come over the real network."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

from fakes import issuer
from fakes.upstream import UpstreamThread
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer


@contextmanager
def key_server(kids: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Serves the public keys of `kids`; yields its address and the keys it was asked with."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(str(self.headers.get("authorization")))
            algorithms = {"es": "ES256", "ed": "EdDSA"}
            keys = [issuer.jwk(kid, algorithms.get(kid, "RS256")) for kid in kids]
            body = json.dumps({"keys": keys}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/keys", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def token(kid: str = "k1", algorithm: str = "RS256", **changes: Any) -> str:
    said = issuer.claims(**{"exp": int(time.time()) + 300} | changes)
    return issuer.token(said, kid, algorithm)


def ask(edge: Edge, credential: str) -> httpx.Response:
    body = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
    headers = {"authorization": f"Bearer {credential}"}
    with httpx.Client(trust_env=False, timeout=20) as client:
        return client.post(f"{edge.url}/v1/chat/completions", json=body, headers=headers)


@pytest.mark.parametrize("reuse_count", [None, 1])
def test_a_token_opens_the_door_and_its_keys_are_fetched_once(
    own_edges: Edges, store: RedisServer, upstream: UpstreamThread, reuse_count: int | None
) -> None:
    kids = ["k1", "es", "ed"]
    with key_server(kids) as (url, asked):
        name = f"login{reuse_count or 0}"
        known = json.loads(issuer.settings(jwks_url=url, algorithms=["RS256", "ES256", "EdDSA"]))
        given = settings(
            {"mock": upstream.url}, store.url, issuers=json.dumps({name: known["login"]})
        )
        edge = own_edges.start(given, reuse_count=reuse_count)
        for kid, algorithm in (("k1", "RS256"), ("es", "ES256"), ("ed", "EdDSA")):
            assert [200, 200] == [ask(edge, token(kid, algorithm)).status_code for _ in range(2)]
        assert ["None"] == asked, "no key of ours went there"
        assert 200 == ask(edge, token(aud=["other", "nearfar"])).status_code
        wrong = [
            token(aud="other"), token(kid="k2"), token(kid="k1", exp=int(time.time()) - 5),
            issuer.token(issuer.claims(exp=2**40), algorithm="none"),
            issuer.token(issuer.claims(exp=2**40), algorithm="HS256", alg="RS256"),
            token(algorithm="RS512"), "a.b.c",
        ]  # fmt: skip
        for credential in wrong:
            answer = ask(edge, credential)
            assert 401 == answer.status_code, credential
            assert "www-authenticate" in answer.headers
        assert 2 >= len(asked), "an unknown key id was asked for once"
        (line,) = {line["tenant"] for line in edge.lines() if line["status"] == 200}
        assert f"{name}~acme" == line
        assert all(token()[:20] not in text for text in edge.log_text().splitlines())
