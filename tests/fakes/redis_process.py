"""Not a fake: a real redis-server, on a port of its own, that a test may kill and start again."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import redis

from nearfar import program
from nearfar.ports import free_port


class RedisServer:
    """One redis-server, empty at each start; `folder` is its working directory."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [str(program.find("redis-server")), "--port", str(self.port), "--save", ""]
        self._process = subprocess.Popen(
            [*argv, "--bind", "127.0.0.1", "--loglevel", "warning"],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url, socket_timeout=0.5) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False
