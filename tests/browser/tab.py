"""One tab of a Chromium, asked over the DevTools protocol's pipe (JSON ended by a zero byte)."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from PIL import Image

from browser.chromium import Chromium

# Its own sandbox needs rights that a container seldom gives; what it opens are files of ours.
_FLAGS = ("--headless=shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
_LOAD_S = 30.0
# The protocol's pipe is file 3 for what Chromium reads and file 4 for what it writes.
_BECOME = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""


@dataclass(slots=True)
class Tab:
    """A context manager. `events` are what the tab told by itself, the oldest first."""

    chromium: Chromium
    events: list[dict[str, Any]] = field(default_factory=list)
    _exits: ExitStack = field(default_factory=ExitStack)
    _to: int = -1
    _from: int = -1
    _unread: bytes = b""
    _count: int = 0
    _session: str | None = None

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            profile = exits.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            theirs_in, self._to = os.pipe()
            self._from, theirs_out = os.pipe()
            argv = [str(self.chromium.program), "--remote-debugging-pipe", *_FLAGS]
            argv.append(f"--user-data-dir={profile}")
            theirs = [fcntl.fcntl(handle, fcntl.F_DUPFD, 10) for handle in (theirs_in, theirs_out)]
            process = subprocess.Popen(
                [sys.executable, "-c", _BECOME, *map(str, theirs), *argv, "about:blank"],
                pass_fds=theirs,
                env=self.chromium.environment,
                stderr=subprocess.DEVNULL,
            )
            exits.callback(_end, process)
            for handle in (theirs_in, theirs_out, *theirs):
                os.close(handle)
            for handle in (self._to, self._from):
                exits.callback(os.close, handle)
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            found = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = found["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def look(self, width: int, *, dark: bool = False, height: int = 900) -> None:
        """Take a width, and light or dark as the reader's wish."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        """Open a file, and wait until all of it is there."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + _LOAD_S
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, f"{page} did not load in {_LOAD_S} s"
            self.value("1")  # whatever is asked, what was told meanwhile comes with the answer

    def value(self, expression: str) -> Any:
        """What an expression gives in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self) -> Image.Image:
        """The whole page as it is drawn."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")

    def told(self, method: str) -> list[Any]:
        """The parameters of what was told under this name."""
        return [event["params"] for event in self.events if event["method"] == method]

    def call(self, method: str, **parameters: Any) -> Any:
        """Call one method and wait for its answer."""
        self._count += 1
        asked: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._count:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            data = os.read(self._from, 1 << 20)
            assert data, "Chromium ended"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
