"""JSON that nests thousands deep, from whoever the edge asks, ends nothing but its own request.

Read by the standard library's reader it would end the component's stack, and with it every request
of the instance: so each of these has a slow stream beside it, which must come to its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from fakes import issuer
from fakes.script import Script
from fakes.upstream import UpstreamThread
from stack.answers import DONE, events
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer

DEPTH = 50_000
DEEP = b"[" * DEPTH
HALF = b'{"choices":[{"index":0,"delta":{"x":' + b'{"a":' * DEPTH


@contextmanager
def slow_stream(edge: Edge, caller: Caller, calls: Calls) -> Iterator[None]:
    """One answer that runs before, during and after, in the same instance, and ends well."""
    calls.answer(Script(chunks=12, gap_ms=60), f"{caller.marker} slow")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(caller.post, edge, caller.body("slow one", stream=True))
        calls.wait(timeout_s=20)
        yield
        assert DONE == events(asked.result().content)[-1]


def answer_with(calls: Calls, caller: Caller, body: bytes, kind: str, status: int = 200) -> None:
    script = Script(status=status, body=body, headers=(("content-type", kind),))
    calls.answer(script, f"{caller.marker} deep")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("text", [b"data: %b\n\n" % DEEP, b"data: %b\n\n" % HALF])
def test_an_event(warm: Edge, caller: Caller, calls: Calls, text: bytes, *, streamed: bool) -> None:
    with slow_stream(warm, caller, calls):
        answer_with(calls, caller, text, "text/event-stream")
        answer = caller.post(warm, caller.body("deep one", stream=streamed))
        error = events(answer.content)[-1] if streamed else answer.json()
        assert (200 if streamed else 502) == answer.status_code
        assert "upstream_broke" == error["error"]["code"]


@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_a_body_of_an_answer_or_an_error(
    warm: Edge, caller: Caller, calls: Calls, status: int
) -> None:
    with slow_stream(warm, caller, calls):
        answer_with(calls, caller, b'{"error":' + DEEP, "application/json", status)
        answer = caller.post(warm, caller.body("deep one"))
        assert {200: 502, 400: 400, 429: 429, 500: 502}[status] == answer.status_code
        assert DEEP[:100] not in answer.content


@pytest.mark.parametrize("name", ["nf:1:revoked", "nf:1:keys"])
def test_what_stands_in_the_store(
    own_edges: Edges,
    own_store: RedisServer,
    upstream: UpstreamThread,
    caller: Caller,
    calls: Calls,
    name: str,
) -> None:
    with own_store.client() as client:
        client.set(name, DEEP)
    edge = own_edges.start(settings({"mock": upstream.url}, own_store.url))
    with slow_stream(edge, caller, calls):
        assert 200 == caller.post(edge, caller.body()).status_code
        assert 200 == caller.get(edge, "/admin/keys").status_code


def test_a_key_set(
    own_edges: Edges, store: RedisServer, upstream: UpstreamThread, caller: Caller, calls: Calls
) -> None:
    with _deep_key_server() as url:
        known = json.loads(issuer.settings(jwks_url=url))
        given = {"deep": known["login"]}
        edge = own_edges.start(
            settings({"mock": upstream.url}, store.url, issuers=json.dumps(given))
        )
        with slow_stream(edge, caller, calls):
            headers = {"authorization": f"Bearer {issuer.token()}"}
            answer = httpx.post(
                f"{edge.url}/v1/chat/completions",
                json=caller.body(),
                headers=headers,
                trust_env=False,
                timeout=20,
            )
            assert (503, "issuer_unavailable") == (
                answer.status_code,
                answer.json()["error"]["code"],
            )


@contextmanager
def _deep_key_server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(DEPTH))
            self.end_headers()
            self.wfile.write(DEEP)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/keys"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
