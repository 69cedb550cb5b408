"""The process that is measured: one engine bare and one behind a gate, each in a uvicorn.

    python -m bench.gate_server REDIS

The first line on stdout is their addresses. When its input ends it prints what the gate's own steps
took, in milliseconds: the gate is the product's, with a clock before and after each step.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict

import uvloop

from fakes.engine import SECRET, Engine, listening
from gpu_backend.gate import Gate
from gpu_backend.gate.answers import Headers, Message, Scope
from gpu_backend.gate.limiter import Hold, Limiter
from gpu_backend.gate.middleware import Passage
from gpu_backend.gate.settings import Settings
from gpu_backend.grant import Grant

STEPS = ("grant and place", "limits (Redis)", "headers", "last bytes wait")

_taken: dict[str, list[float]] = defaultdict(list)


class TimedLimiter(Limiter):
    """Notes how long the one round trip takes."""

    async def reserve(self, grant: Grant) -> Hold:
        began = time.perf_counter()
        hold = await super().reserve(grant)
        _note("limits (Redis)", began)
        return hold


class TimedPassage(Passage):
    """Notes what is done at the head and before the last bytes."""

    __slots__ = ()

    def _headers(self, message: Message) -> Headers:
        began = time.perf_counter()
        headers = super()._headers(message)
        _note("headers", began)
        return headers

    async def _free(self) -> None:
        began = time.perf_counter()
        await super()._free()
        _note("last bytes wait", began)


class TimedGate(Gate):
    """Notes how long a request takes to be let in."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        super().__init__(engine, settings)
        self.limiter = TimedLimiter(settings)

    async def _enter(self, scope: Scope) -> Passage:
        began = time.perf_counter()
        entered = await super()._enter(scope)
        _note("let in", began)
        return TimedPassage(self, entered.scope, entered.grant, entered.seat, entered.hold)


def steps() -> dict[str, float]:
    """The median of each step."""
    found = {name: statistics.median(times) for name, times in _taken.items() if times}
    if "let in" in found:
        found["grant and place"] = found.pop("let in") - found["limits (Redis)"]
    return {name: found[name] for name in STEPS if name in found}


def _note(step: str, began: float) -> None:
    _taken[step].append((time.perf_counter() - began) * 1000)


async def _serve(redis: str) -> None:
    settings = Settings(secrets=(SECRET,), redis=redis, max_running=1000)
    bare, gated = Engine(keep=False), TimedGate(Engine(keep=False), settings)
    async with listening(bare) as without, listening(gated) as behind:
        print(json.dumps([without, behind]), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(steps()), flush=True)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
