"""A client that goes away ends the upstream's work within a second, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from fakes.script import Script
from stack.caller import CHAT, Caller
from stack.calls import Calls
from stack.edges import Edge
from stack.stores import RedisServer
from stack.streams import leaver

WITHIN_S = 1.0
HUNDRED = Script(chunks=100, gap_ms=50)
ENDS = ("fin", "rst")

pytestmark = pytest.mark.fault(6)


@dataclass(frozen=True, slots=True)
class Leases:
    """The leases that a test takes; an edge that another test ended may have left some."""

    store: RedisServer
    before: frozenset[str]

    @property
    def held(self) -> set[str]:
        """What is held now and was not before."""
        return self.store.keys("nf:1:lease:*") - self.before


@pytest.fixture
def leases(store: RedisServer) -> Leases:
    """Those of this test."""
    return Leases(store, frozenset(store.keys("nf:1:lease:*")))


def nothing_is_left(edge: Edge, caller: Caller, calls: Calls, leases: Leases) -> None:
    """The answer was not kept, and the next equal request asks at once."""
    deadline = time.monotonic() + 1
    while leases.held:
        assert time.monotonic() < deadline, "a lease is held by nobody"
        time.sleep(0.02)
    count = len(calls.seen)
    calls.answer(Script())
    answer = caller.post(edge, caller.body())
    assert ("miss", count + 1) == (answer.headers["x-cache"], len(calls.seen))


class TestStreaming:
    @pytest.mark.parametrize("how", ENDS)
    def test_the_upstream_sees_it_between_chunks(
        self, edge: Edge, caller: Caller, calls: Calls, leases: Leases, how: str
    ) -> None:
        calls.answer(HUNDRED)
        with leaver(edge, caller, caller.body(stream=True)) as client:
            client.read_until(3, b'"content":')
            left = client.leave(how)
            assert calls.wait_closed() - left < WITHIN_S
        assert calls.only.chunks_sent < 40
        nothing_is_left(edge, caller, calls, leases)

    @pytest.mark.parametrize("how", ENDS)
    @pytest.mark.parametrize(
        "script",
        [
            Script(first_content_ms=8000),
            Script(first_content_ms=8000, role_ms=0),
            Script(chunks=3, gap_ms=8000),
        ],
        ids=["before the first content", "after the role", "in a long gap"],
    )
    def test_the_upstream_sees_it_while_it_is_silent(
        self,
        edge: Edge,
        caller: Caller,
        calls: Calls,
        leases: Leases,
        how: str,
        script: Script,
    ) -> None:
        calls.answer(script)
        with leaver(edge, caller, caller.body(stream=True)) as client:
            calls.wait()
            client.read_until(1, b"\r\n\r\n")
            time.sleep(0.1)
            left = client.leave(how)
            assert calls.wait_closed() - left < WITHIN_S
        nothing_is_left(edge, caller, calls, leases)

    @pytest.mark.parametrize("streamed", [False, True])
    def test_an_upstream_without_a_head_sees_it_once_its_head_has_left(
        self, edge: Edge, caller: Caller, calls: Calls, leases: Leases, *, streamed: bool
    ) -> None:
        """The host cannot take a request back before; vLLM sends its head before it queues."""
        calls.answer(Script(head_ms=1500, first_content_ms=9000))
        with leaver(edge, caller, caller.body(stream=streamed)) as client:
            calls.wait()
            client.leave("fin")
            closed_at = calls.wait_closed()
        head_at = calls.only.t_head_sent
        assert head_at is not None
        assert closed_at - head_at < WITHIN_S
        nothing_is_left(edge, caller, calls, leases)

    def test_it_is_seen_for_an_answer_that_is_not_cached(
        self, edge: Edge, caller: Caller, calls: Calls
    ) -> None:
        calls.answer(HUNDRED)
        with leaver(edge, caller, caller.body(stream=True, temperature=1)) as client:
            client.read_until(3, b'"content":')
            left = client.leave("fin")
            assert calls.wait_closed() - left < WITHIN_S

    def test_a_killed_process_is_seen(self, edge: Edge, caller: Caller, calls: Calls) -> None:
        calls.answer(HUNDRED)
        code = (
            "import sys, urllib.request as u\n"
            "url, body, key = sys.argv[1:]\n"
            "asked = u.Request(url, body.encode(), {'authorization': key})\n"
            "with u.build_opener(u.ProxyHandler({})).open(asked) as answer:\n"
            "    for line in answer: pass\n"
        )
        body = json.dumps(caller.body(stream=True))
        argv = [sys.executable, "-c", code, edge.url + CHAT, body, f"Bearer {caller.key}"]
        with subprocess.Popen(argv) as client:
            calls.wait_chunks(3)
            client.send_signal(signal.SIGKILL)
            left = time.monotonic()
            assert calls.wait_closed() - left < WITHIN_S


class TestWhole:
    @pytest.mark.parametrize("how", ENDS)
    @pytest.mark.parametrize(
        "script",
        [HUNDRED, Script(first_content_ms=8000), Script(chunks=3, gap_ms=8000)],
        ids=["between chunks", "before the first content", "in a long gap"],
    )
    @pytest.mark.parametrize("after_s", [0.1, 1.0], ids=["before the head", "after the head"])
    def test_the_upstream_sees_it(
        self,
        edge: Edge,
        caller: Caller,
        calls: Calls,
        leases: Leases,
        how: str,
        script: Script,
        after_s: float,
    ) -> None:
        calls.answer(script)
        with leaver(edge, caller, caller.body()) as client:
            calls.wait()
            time.sleep(after_s)
            left = client.leave(how)
            assert calls.wait_closed() - left < WITHIN_S
        nothing_is_left(edge, caller, calls, leases)
