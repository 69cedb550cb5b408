"""A fake of Linode's API, as far as an operator's commands read it.

It stands in for an account: it wants the token wherever the real one does, checks every path,
answers in pages, and tells the token's scopes. Collections are what a test puts in.
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

TOKEN = "linode-token-canary"
# What may be read without a token (techdocs.akamai.com/linode-api).
_OPEN = ("/regions", "/lke/versions", "/linode/types")
_GPU, _CPU = "g2-gpu-rtx4000a1-m", "g6-standard-4"


def _collections() -> dict[str, list[dict[str, Any]]]:
    return {
        "/lke/versions": [{"id": "1.34"}, {"id": "1.35"}],
        "/lke/clusters": [],
        "/linode/instances": [],
        "/nodebalancers": [],
        "/volumes": [],
        "/networking/firewalls": [],
    }


def _objects() -> dict[str, Any]:
    every = ["Kubernetes", "NodeBalancers", "Cloud Firewall", "Block Storage", "GPU Linodes"]
    return {
        "/profile": {"username": "tests"},
        "/account": {"capabilities": ["Linodes", "Kubernetes", "NodeBalancers"]},
        "/regions/us-ord": {
            "id": "us-ord",
            "label": "Chicago, IL",
            "status": "ok",
            "capabilities": every,
        },
        "/regions/us-ord/availability": [
            {"region": "us-ord", "plan": _GPU, "available": True},
            {"region": "us-ord", "plan": _CPU, "available": True},
        ],
    }


@dataclass
class FakeLinode:
    """What the account holds; `api` is its address, `asked` the paths in order."""

    scopes: str = "*"
    page: int = 2
    collections: dict[str, list[dict[str, Any]]] = field(default_factory=_collections)
    objects: dict[str, Any] = field(default_factory=_objects)
    refused: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    api: str = ""


@contextmanager
def serving(fake: FakeLinode) -> Iterator[FakeLinode]:
    """Serve it on a free port until the end of the block."""

    class Handler(_Handler):
        account = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.api = f"http://127.0.0.1:{server.server_address[1]}/v4"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    account: FakeLinode

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        assert parts.path.startswith("/v4/"), parts.path
        path = parts.path.removeprefix("/v4")
        self.account.asked.append(path)
        if not path.startswith(_OPEN) and self.headers.get("authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"errors": [{"reason": "Invalid Token"}]})
        elif path in self.account.refused:
            reason = "Your OAuth token is not authorized to use this endpoint."
            self._answer(self.account.refused[path], {"errors": [{"reason": reason}]})
        elif path in self.account.objects:
            self._answer(200, self.account.objects[path])
        elif path in self.account.collections:
            self._page(self.account.collections[path], parse_qs(parts.query))
        else:
            self._answer(404, {"errors": [{"reason": "Not found"}]})

    def _page(self, items: list[dict[str, Any]], query: dict[str, list[str]]) -> None:
        size, page = self.account.page, int(query.get("page", ["1"])[0])
        pages = max(1, -(-len(items) // size))
        assert page <= pages, "a page that is not there was asked for"
        data = items[(page - 1) * size : page * size]
        self._answer(200, {"data": data, "page": page, "pages": pages, "results": len(items)})

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("x-oauth-scopes", self.account.scopes)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""
