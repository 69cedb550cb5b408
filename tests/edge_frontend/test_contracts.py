"""The fakes keep the contracts of the ports, which the real adapters keep inside the hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from contract import clock, store, upstream
from edge_frontend.errors import UpstreamBroke, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from edge_frontend.ports import Call, Sink
from fakes.edge import (
    MemoryStore,
    RecordingSink,
    Scripted,
    ScriptedUpstream,
    VirtualClock,
    Wait,
    run,
)

HALF = upstream.BODY[: len(upstream.BODY) // 2]
SCENES: dict[str, Scripted | UpstreamError] = {
    "whole": Scripted([upstream.BODY], headers=(("x-seen", b"yes"),)),
    "refused": Scripted([b"full"], status=429, headers=(("retry-after", b"7"),)),
    "closed": UpstreamUnreachable("There is nobody."),
    "no head": UpstreamTimeout("The head did not come."),
    "breaks": Scripted([HALF, UpstreamBroke("The body broke off.")]),
    "stalls": Scripted([HALF, Wait(upstream.SHORT_MS), UpstreamTimeout("Nothing came.")]),
}


class World:
    """A fake upstream that answers each call by its scene, and pipes to a fake client."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.upstream = ScriptedUpstream(self.clock)

    def call(self, scene: str) -> Call:
        self.upstream.enqueue(SCENES[scene])
        return Call("http", "u", "/", (), b"{}", 1_000, 1_000, 1_000)

    def pipe(self) -> tuple[Sink, Callable[[], Awaitable[bytes]]]:
        sink = RecordingSink(self.clock)

        async def arrived() -> bytes:
            return sink.data

        return sink, arrived


async def awaited(check: Awaitable[None]) -> None:
    await check


def test_every_scene_is_arranged() -> None:
    assert set(upstream.SCENES) == set(SCENES)


@pytest.mark.parametrize("check", upstream.CHECKS)
def test_the_scripted_upstream_keeps_the_contract(check: upstream.Check) -> None:
    world = World()
    run(awaited(check(world.upstream, world.clock, world.call)))


@pytest.mark.parametrize("check", upstream.POURING)
def test_the_scripted_upstream_pours_as_the_contract_says(check: upstream.Pouring) -> None:
    world = World()
    run(awaited(check(world.upstream, world.call, world.pipe)))


@pytest.mark.parametrize("check", clock.CHECKS)
def test_the_virtual_clock_keeps_the_contract(check: clock.Check) -> None:
    run(awaited(check(VirtualClock())))


@pytest.mark.parametrize("check", [*store.CHECKS, *store.ATOMIC])
def test_the_store_in_memory_keeps_the_contract(check: store.Check) -> None:
    virtual = VirtualClock()
    run(awaited(check(MemoryStore(virtual), virtual, "contract:1")))
