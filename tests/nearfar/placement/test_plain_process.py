"""The third host as a process: the same core, asked as an edge is, over a real Redis and HTTP."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from edge_frontend import sse
from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar.checkout import here
from nearfar.guard import Guard
from nearfar.placement.processes import Bench, ended, marks_told
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, settings
from stack.stores import RedisServer

CHAT = "/v1/chat/completions"
SLOW = f"slow-{secrets.token_hex(4)}"
BREAKS = f"breaks-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread(api_key=UPSTREAM_KEY) as found:
        found.mark(SLOW, Script(pieces=("x",) * 100, gap_ms=50))
        found.mark(BREAKS, Script(end="rst", end_after=1))
        yield found


@pytest.fixture(scope="module")
def url(upstream: UpstreamThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running process with a store."""
    folder = Path(tmp_path_factory.mktemp("plain"))
    with ExitStack() as exits:
        guard = Guard()
        exits.callback(guard.close)
        store = RedisServer(folder, guard)
        store.start()
        exits.callback(store.kill)
        bench = Bench(here(), folder, guard)
        bench.settings = settings({"mock": upstream.url}, store.url)
        child, address = bench.plain()
        exits.enter_context(ended(child))
        told = marks_told(child, "listening")
        assert sorted(told.values()) == [
            told[name] for name in ("interpreter", "imports", "settings", "listening")
        ]
        yield f"http://127.0.0.1:{address.port}"


@pytest.fixture
def caller() -> Caller:
    return Caller()


def post(url: str, caller: Caller, body: Any, **headers: str) -> httpx.Response:
    sent = caller.headers(**headers)
    return httpx.post(url + CHAT, json=body, headers=sent, timeout=20, trust_env=False)


def texts(content: bytes) -> str:
    payloads = [p for p in sse.Parser().feed(content) if p != sse.DONE]
    chunks = [json.loads(payload) for payload in payloads]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


def test_a_streamed_miss_is_a_hit_the_second_time(url: str, caller: Caller) -> None:
    body = caller.body("name three rivers", stream=True)
    miss = post(url, caller, body)
    assert (200, "miss") == (miss.status_code, miss.headers["x-cache"])
    assert miss.content.rstrip().endswith(b"[DONE]")
    deadline = time.monotonic() + 5  # the answer is kept after its reply has gone
    hit = post(url, caller, body)
    while hit.headers["x-cache"] != "hit" and time.monotonic() < deadline:
        hit = post(url, caller, body)
    assert "hit" == hit.headers["x-cache"]
    assert texts(miss.content) == texts(hit.content) != ""


def test_one_body_has_its_record(url: str, caller: Caller) -> None:
    answer = post(url, caller, caller.body("x"), x_nearfar_trace="1").json()
    assert answer["choices"][0]["message"]["content"]
    assert "miss" == answer["nearfar"]["cache"]


def test_who_has_no_key_is_refused(url: str) -> None:
    answer = httpx.post(url + CHAT, json={}, trust_env=False)
    assert (401, "invalid_api_key") == (answer.status_code, answer.json()["error"]["code"])


def test_a_body_that_is_too_large_is_refused(url: str, caller: Caller) -> None:
    assert 413 == post(url, caller, caller.body("x" * 1_100_000)).status_code


def test_a_model_server_that_breaks_off_is_an_error_event(url: str, caller: Caller) -> None:
    answer = post(url, caller, caller.body(BREAKS, stream=True))
    assert b"[DONE]" not in answer.content
    assert b"upstream_broke" in answer.content


def test_one_body_that_breaks_off_after_its_head_does_not_end_in_order(
    url: str, caller: Caller, upstream: UpstreamThread
) -> None:
    marker = f"late-{secrets.token_hex(4)}"
    upstream.mark(marker, Script(pieces=("x",) * 30, gap_ms=50, end="rst", end_after=25))
    with pytest.raises(httpx.RemoteProtocolError):
        post(url, caller, caller.body(marker))


def test_a_client_that_leaves_ends_the_model_call(
    url: str, caller: Caller, upstream: UpstreamThread
) -> None:
    seen = len(upstream.requests)
    body = caller.body(SLOW, stream=True)
    with httpx.stream(
        "POST", url + CHAT, json=body, headers=caller.headers(), trust_env=False
    ) as answer:
        next(answer.iter_bytes())
    upstream.wait_closed(seen, timeout_s=5)


def test_it_times_its_own_ways_as_an_edge_does(url: str, caller: Caller) -> None:
    answer = httpx.get(f"{url}/probe?count=3", headers=caller.headers(), trust_env=False).json()
    found = answer["upstreams"]["gpu-mock"]
    assert [3, 3] == [len(found["connecting"]["connect_ms"]), len(found["exchanges"]["done"])]


def test_wrong_settings_are_told_in_one_line_and_code_2(tmp_path: Path) -> None:
    guard = Guard()
    bench = Bench(here(), tmp_path, guard)
    bench.settings = {"NEARFAR_STORE": "nonsense"}
    child, _ = bench.plain()
    with ended(child):
        assert 2 == child.popen.wait(30)
    guard.close()
    last = child.log.read_text().splitlines()[-1]
    assert last.startswith("settings: ")
