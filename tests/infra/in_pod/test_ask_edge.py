"""The trial inside the cluster, as the Job runs it: the program's text handed to Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from nearfar_infra.manifests import edge


@contextmanager
def answering(status: int, text: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert ("qwen", "Bearer nf_key") == (asked["model"], self.headers["authorization"])
            body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(url: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    """Run the Job's own command here."""
    pod = edge.trial("t", "n", "qwen", "image")["spec"]["template"]["spec"]
    _, flag, source = pod["containers"][0]["command"]
    return subprocess.run(
        [sys.executable, flag, source],
        env={"URL": url, "KEY": "nf_key", "MODEL": "qwen"},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def test_an_answer_ends_the_job_well() -> None:
    with answering(200, "Hello") as url:
        assert 0 == run(url).returncode


@pytest.mark.parametrize(("status", "stage"), [(401, "key"), (404, "model")])
def test_what_waiting_does_not_help_ends_it_at_once(status: int, stage: str) -> None:
    with answering(status, "") as url:
        ended = run(url)
    assert 2 == ended.returncode
    assert f"stage '{stage}'" in ended.stderr
    assert "nf_key" not in ended.stderr


def test_an_edge_whose_model_is_away_is_asked_again() -> None:
    with answering(503, "") as url, pytest.raises(subprocess.TimeoutExpired) as caught:
        run(url, timeout_s=2)
    assert b"stage 'model server': the edge answered 503" in (caught.value.stderr or b"")
