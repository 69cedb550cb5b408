"""A stand-in for vLLM: a start of the real one takes half a minute and cannot be told to fail.
It takes `PORT MODE`, writes log lines like the real one's, starts a child and a grandchild as
vLLM starts its engine and worker, and then behaves as MODE says."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LINES = (
    "(EngineCore pid=1) INFO 11-30 09:29:07 [core.py:133] Initializing a V1 LLM engine (v0.32.0)",
    "(Worker pid=2) INFO 11-30 09:29:23 [cpu_model_runner.py:68] Starting to load model x...",
    "(Worker pid=2) INFO 11-30 09:29:23 [default_loader.py:501] Loading weights took 0.50 seconds",
    "(EngineCore pid=1) INFO 11-30 09:29:26 [core.py:402] init engine (profile, create) took 1 s",
)
CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {!r}]); {}"
SLEEP = "import time; time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Handler(http.server.BaseHTTPRequestHandler):
    mode = "good"
    asked = 0

    def do_GET(self) -> None:
        self._reply(200, b"")

    def do_POST(self) -> None:
        type(self).asked += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = os.environ.get("VLLM_API_KEY")
        if self.mode == "busy-first" and self.asked < 3:
            self._reply(503, b"{}")
        elif self.mode == "never":
            self._reply(500, b"{}")
        elif key is not None and self.headers["authorization"] != f"Bearer {key}":
            self._reply(401, b'{"error":"Unauthorized"}')
        elif body["model"] != "small":
            self._reply(404, b'{"error":{"code":404}}')
        elif self.mode == "other":
            self._reply(200, b"<html>hello</html>")
        else:
            self._reply(200, b'{"usage":{"completion_tokens":1}}')

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        pass


def end(child: subprocess.Popen[bytes], number: int, frame: object) -> None:
    child.terminate()
    os._exit(0)


def main(port: int, mode: str) -> None:
    print("importing", flush=True)
    if mode == "dies":
        print("(APIServer pid=3) ERROR 11-30 09:29:23 [x.py:1] ValueError: no such model: x")
        print("(APIServer pid=3) INFO 11-30 09:29:23 [x.py:2] goodbye")
        sys.exit(3)
    # In a session of its own, so that ending the process group alone would leave it behind.
    grandchild = STUBBORN if mode == "stubborn" else SLEEP
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(grandchild, SLEEP)], start_new_session=True
    )
    if mode == "hangs":
        time.sleep(600)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, functools.partial(end, child))
    for line in LINES:
        print(line, flush=True)
        time.sleep(0.3)
    environment = {
        k: v for k, v in os.environ.items() if k.startswith(("VLLM_", "PYTHON", "NEARFAR_"))
    }
    Path(f"environment-{port}.json").write_text(json.dumps(environment))
    Handler.mode = mode
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
