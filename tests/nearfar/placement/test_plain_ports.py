"""The third host's adapters keep the contracts that the component's own adapters keep."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from contract import clock, store, upstream
from edge_frontend.errors import StoreDown
from edge_frontend.ports import Call, Get, Sink
from fakes.edge import RecordingSink, VirtualClock
from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar.guard import Guard
from nearfar.placement.plain.clock import PlainClock
from nearfar.placement.plain.store import PlainStore
from nearfar.placement.plain.upstream import PlainUpstream
from nearfar.ports import free_port
from stack.stores import RedisServer

LONG_MS = 5_000
SCRIPTS = {
    "whole": Script(body=upstream.BODY, headers=(("X-Seen", "yes"),)),
    "refused": Script(status=429, body=b"full", headers=(("Retry-After", "7"),)),
    "no head": Script(end="hang", end_before_head=True),
    "breaks": Script(end="fin", end_after=1, role_chunk=False),
    "stalls": Script(end="hang", end_after=1, role_chunk=False),
}


@pytest.fixture(scope="module")
def scenes() -> Iterator[Callable[[str], Call]]:
    """The request that meets the server of each scene."""
    closed = f"127.0.0.1:{free_port()}"
    with UpstreamThread() as server:
        markers = {scene: f"scene-{scene.replace(' ', '-')}-end" for scene in SCRIPTS}
        for scene, script in SCRIPTS.items():
            server.mark(markers[scene], script)

        def call(scene: str) -> Call:
            content = markers.get(scene, "nobody")
            messages = [{"role": "user", "content": content}]
            body = json.dumps({"model": "m", "messages": messages, "stream": True}).encode()
            at = closed if scene == "closed" else f"127.0.0.1:{server.fake.port}"
            limit_ms = upstream.SHORT_MS if scene in ("no head", "stalls") else LONG_MS
            head = (
                ("content-type", b"application/json"),
                ("content-length", str(len(body)).encode()),
            )
            path = "/v1/chat/completions"
            return Call("http", at, path, head, body, LONG_MS, limit_ms, limit_ms)

        yield call


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A real Redis."""
    guard = Guard()
    found = RedisServer(Path(tmp_path_factory.mktemp("plain")), guard)
    found.start()
    yield found
    found.kill()
    guard.close()


def test_every_scene_is_arranged() -> None:
    assert set(upstream.SCENES) == {*SCRIPTS, "closed"}


@pytest.mark.parametrize("check", upstream.CHECKS, ids=lambda check: check.__name__)
async def test_the_upstream_keeps_the_contract(
    check: upstream.Check, scenes: Callable[[str], Call]
) -> None:
    with closing(PlainUpstream()) as asked:
        await check(asked, PlainClock(), scenes)


@pytest.mark.parametrize("check", upstream.POURING, ids=lambda check: check.__name__)
async def test_the_upstream_pours_as_the_contract_says(
    check: upstream.Pouring, scenes: Callable[[str], Call]
) -> None:
    def pipe() -> tuple[Sink, Callable[[], Awaitable[bytes]]]:
        sink = RecordingSink(VirtualClock())

        async def arrived() -> bytes:
            return sink.data

        return sink, arrived

    with closing(PlainUpstream()) as asked:
        await check(asked, scenes, pipe)


@pytest.mark.parametrize("check", [*store.CHECKS, *store.ATOMIC], ids=lambda check: check.__name__)
async def test_the_store_keeps_the_contract(check: store.Check, redis: RedisServer) -> None:
    name = f"contract:{secrets.token_hex(4)}"
    with closing(PlainStore(redis.url, LONG_MS)) as asked:
        await check(asked, PlainClock(), name)
    await asyncio.sleep(0)


@pytest.mark.parametrize("check", clock.CHECKS, ids=lambda check: check.__name__)
async def test_the_clock_keeps_the_contract(check: clock.Check) -> None:
    await check(PlainClock())


async def test_a_store_where_nobody_listens_is_down() -> None:
    with pytest.raises(StoreDown):
        await store.one(PlainStore(f"redis://127.0.0.1:{free_port()}", 500), Get("x"))
