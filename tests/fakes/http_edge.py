"""A fake edge over HTTP: the admin way over a table in memory, and answers that a test writes.

It stands in for a running stack where a test is about the command line alone. Keys are checked by
the real code; nothing is cached, forwarded or measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from edge_frontend import keys

SECRET = "s" * 40


@dataclass
class HttpEdge:
    """What the fake knows and was asked. `stream` is sent as it stands, then the body ends."""

    secret: str = SECRET
    models: tuple[str, ...] = ("mock",)
    stream: bytes = b""
    status: int = 200
    cache: str = "miss"
    registered: dict[str, dict[str, Any]] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    endpoint: str = ""

    def key(self, *permissions: str) -> str:
        """A key that this edge takes, for an hour."""
        claims = keys.Claims("test", "test", int(time.time()) + 3600, ("*",), permissions)
        return keys.mint(self.secret, claims)

    def may(self, header: str, permission: str) -> bool:
        """Whether the bearer key is one of ours and has the permission."""
        try:
            claims = keys.verify(header.removeprefix("Bearer "), (self.secret,), time.time())
        except keys.InvalidKey:
            return False
        return permission in claims.permissions


@contextmanager
def serving(edge: HttpEdge) -> Iterator[HttpEdge]:
    """Serve the fake on a free port until the end of the block."""

    class Handler(_Handler):
        fake = edge

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    edge.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield edge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: HttpEdge

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            data = [{"id": name, "object": "model"} for name in self.fake.models]
            self._answer(200, {"object": "list", "data": data})
        elif self.path == "/readyz":
            self._answer(200, {"status": "ready"})
        elif self.path == "/admin/keys":
            if self._admin():
                self._answer_lists()
        else:
            self._answer(404, _error("there is no such path", "not_found"))

    def do_PUT(self) -> None:
        about = self._body()
        if self._admin():
            self.fake.registered[self._kid()] = about
            self._answer_lists()

    def do_DELETE(self) -> None:
        if self._admin():
            at = parse_qs(urlsplit(self.path).query).get("at", [str(int(time.time()))])
            self.fake.revoked[self._kid()] = int(at[0])
            self._answer_lists()

    def do_POST(self) -> None:
        sent = {name.lower(): value for name, value in self.headers.items()}
        self.fake.asked.append((sent, self._body()))
        if not self.fake.may(sent.get("authorization", ""), "chat"):
            self._answer(401, _error("the API key is not valid", "invalid_api_key"))
            return
        self.send_response(self.fake.status)
        self.send_header("x-cache", self.fake.cache)
        self.send_header("x-request-id", "req_fake")
        self.end_headers()
        self.wfile.write(self.fake.stream)

    def _answer_lists(self) -> None:
        entries = [{"key_id": kid, **about} for kid, about in self.fake.registered.items()]
        self._answer(200, {"keys": entries, "revoked": self.fake.revoked})

    def _admin(self) -> bool:
        may = self.fake.may(self.headers.get("authorization", ""), "admin")
        if not may:
            self._answer(401, _error("the API key is not valid", "invalid_api_key"))
        return may

    def _kid(self) -> str:
        return urlsplit(self.path).path.rpartition("/")[2]

    def _body(self) -> dict[str, Any]:
        found = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(found, dict)
        return found

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "authentication_error", "code": code}}
