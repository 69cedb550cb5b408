"""The first request of a starting server, behind a gate and not."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator

import pytest

from gpu_backend import probe
from gpu_backend.grant import verify
from gpu_backend.probe import Target

SECRET = "a secret of the gate that is long enough"


class Handler(http.server.BaseHTTPRequestHandler):
    seen: list[str | None] = []  # noqa: RUF012 - of the one server of each test

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.seen.append(self.headers["x-nearfar-grant"])
        body = b'{"usage":{"completion_tokens":1}}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Handler.seen = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_server_behind_a_gate_is_asked_with_a_grant_of_its_own_each_time(port: int) -> None:
    target = Target("127.0.0.1", port, "small", "key", SECRET)
    for _ in range(2):
        assert probe.answers(target, 5)
    grants = [verify(str(v).encode(), [SECRET.encode()], time.time()) for v in Handler.seen]
    assert ("nearfar", "probe", 1) == (grants[0].tenant, grants[0].key, grants[0].output_tokens)
    assert grants[0].request_id != grants[1].request_id


def test_a_server_without_a_gate_is_asked_without_one(port: int) -> None:
    assert probe.answers(Target("127.0.0.1", port, "small", "key"), 5)
    assert [None] == Handler.seen


def test_no_secret_is_shown() -> None:
    shown = repr(Target("127.0.0.1", 1, "small", "canary-key", "canary-secret"))
    assert "canary" not in shown
