"""What the tests serve over HTTP: charts, Linode's API, and the host of the stand-in `spin`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from . import charts
from .linode import web
from .linode.account import Account

Told = dict[str, Any]


class Cloud:
    """A server on loopback; `apps` is told what `spin` deploys and deletes.

    The chart repository is `url` + /charts; Linode's API is `url` + /v4 and wants `token`.
    """

    def __init__(self, apps: Callable[[Told], Told], account: Account, token: str) -> None:
        self.apps, self.account, self.token = apps, account, token
        handler = type("Handler", (_Handler,), {"cloud": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.fetched: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)


class _Handler(BaseHTTPRequestHandler):
    cloud: Cloud

    def do_GET(self) -> None:
        self.cloud.fetched.append(self.path)
        path = urlsplit(self.path).path
        known = {charts.file_name(each): each for each in charts.names()}
        name = path.removeprefix("/charts/")
        if path.startswith("/v4/"):
            self._linode(path.removeprefix("/v4"))
        elif name == "index.yaml":
            self._answer(200, charts.index(f"{self.cloud.url}/charts"))
        elif name in known:
            self._answer(200, charts.archive(known[name]))
        else:
            self._answer(404, b"not here\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self._answer(200, json.dumps(self.cloud.apps(json.loads(body))).encode())

    def log_message(self, *unused: object) -> None:
        """Say nothing: an app's variables are secrets."""

    def _linode(self, path: str) -> None:
        if self.headers.get("authorization") != f"Bearer {self.cloud.token}":
            self._answer(401, b'{"errors": [{"reason": "Invalid Token"}]}')
            return
        found = web.answer(path, self.cloud.account.read())
        self._answer(200 if found else 404, json.dumps(found or {"errors": []}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
