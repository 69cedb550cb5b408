"""A fake Kubernetes API server over HTTP: pods and events that a test writes.

It answers two lists and a DELETE, in the form of the API reference; there is no cluster behind it.
After a DELETE it shows what `renewed` holds, as a Deployment's controller would make it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class ApiServer:
    """What it shows and what it was asked. `status` other than 200 is answered to everything."""

    token: str = "token-1"
    pods: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    renewed: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    text: str | None = None
    asked: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(server: ApiServer) -> Iterator[ApiServer]:
    """Serve on a free port until the end of the block."""

    class Handler(_Handler):
        fake = server

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: ApiServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if parts.path.endswith("/events"):
            uid = query["fieldSelector"][0].partition("=")[2]
            items = [e for e in self.fake.events if e["involvedObject"]["uid"] == uid]
            self._answer({"kind": "EventList", "items": items})
        else:
            self._answer({"kind": "PodList", "items": self.fake.pods})

    def do_DELETE(self) -> None:
        self.fake.pods = self.fake.pods[1:] + self.fake.renewed
        self._answer({"kind": "Pod", "metadata": {}})

    def _answer(self, document: dict[str, Any]) -> None:
        self.fake.asked.append(f"{self.command} {self.path}")
        known = self.headers.get("authorization") == f"Bearer {self.fake.token}"
        status = self.fake.status if known else 401
        body = (self.fake.text or json.dumps(document)).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""
