"""What both gates add to the path through the edge, in one run and stage by stage.

Five ways lead to the same tiny engine, and 64 clients ask each of them in turn, in any order:

    direct             the engine alone
    gate               the engine behind its gate
    edge               an edge without limits, grants or guardrails, before the engine
    edge, gate         an edge with limits of key and tenant and with grants, before the gate
    edge, gate, rules  the same with the guardrails standard@1

A stream is long, as a model's is: what is measured is the way in at 64 open streams, and not how
many streams two cores can begin.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edge_frontend.limits import Limits
from fakes.engine import SECRET, grant, signed
from nearfar import build
from nearfar.checkout import here
from nearfar.guard import Guard
from stack.caller import CHAT, Caller
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer

from . import gate
from .load import Connection, Plan, Sample

STREAMS = 64
TOKENS, GAP_MS = 12, 320  # some four seconds, at a pace that leaves the two cores idle
DIRECT, GATED = "direct", "gate"
BARE, BOTH, RULES = "edge", "edge, gate", "edge, gate, rules"
WAYS = (DIRECT, GATED, BARE, BOTH, RULES)
WARM_UP = 1  # turns of each client
TENANTS = json.dumps({"*": gate.LIMITS})


@dataclass(frozen=True, slots=True)
class Both:
    """Milliseconds: first byte by way, stages of each edge by way, steps of the gate."""

    n: int
    first_byte_ms: Mapping[str, Sequence[float]]
    stages_ms: Mapping[str, Mapping[str, float]]
    steps_ms: Mapping[str, float]

    def p50(self, way: str) -> float:
        """The median time to the first byte."""
        return statistics.median(self.first_byte_ms[way])

    @property
    def added_ms(self) -> float:
        """What both gates add to the edge's path, at p50."""
        return self.p50(BOTH) - self.p50(BARE)

    def document(self) -> dict[str, Any]:
        """For JSON, without the single times."""
        found = asdict(self)
        found["first_byte_ms"] = {way: _cuts(self.first_byte_ms[way]) for way in WAYS}
        return {"streams": STREAMS, "added_p50_ms": self.added_ms, **found}


def measure(run: Path, gate_redis: str, requests: int) -> Both:
    """Start everything and ask each way at least so often, over all clients."""
    turns = WARM_UP + max(2, -(-requests // STREAMS))
    with ExitStack() as exits:
        guard = Guard()
        exits.callback(guard.close)
        near = RedisServer(run, guard)
        near.start()
        exits.callback(near.kill)
        component = build.component(here(), "wasmtime", lambda _: None)
        edges = Edges(component, run, guard)
        engines = exits.enter_context(gate.server(gate_redis))
        exits.callback(edges.stop)
        gated = {"gate_secret": SECRET.decode(), "tenants": TENANTS}
        started = {
            BARE: edges.start(settings({"mock": engines.bare}, near.url)),
            BOTH: edges.start(settings({"mock": engines.gated}, near.url, **gated)),
            RULES: edges.start(
                settings({"mock": engines.gated}, near.url, guardrails="standard@1", **gated)
            ),
        }
        urls = {DIRECT: engines.bare, GATED: engines.gated}
        urls |= {way: edge.url for way, edge in started.items()}
        taken = asyncio.run(_ask_all(urls, turns))
        stages = {way: _stages(edge) for way, edge in started.items()}
        exits.close()
        return Both(len(taken[DIRECT]), taken, stages, dict(engines.steps))


async def _ask_all(urls: Mapping[str, str], turns: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {way: [] for way in urls}
    length_s = TOKENS * GAP_MS / 1000

    async def client(number: int) -> None:
        order = random.Random(number)  # noqa: S311 - for an order, not a secret
        caller = replace(Caller(), limits=Limits(**gate.LIMITS))
        # Clients in step would measure the queue that they form themselves.
        await asyncio.sleep(order.random() * length_s)
        for turn in range(turns):
            for way in order.sample(WAYS, len(WAYS)):
                sample = await _one(urls[way], way, caller, f"{number} {turn} {way}")
                assert sample.ok, (way, sample.error, sample.status)
                at_ms = sample.ms_to("first_byte")
                if turn >= WARM_UP and at_ms is not None:
                    taken[way].append(at_ms)

    await asyncio.gather(*(client(number) for number in range(STREAMS)))
    return taken


async def _one(url: str, way: str, caller: Caller, text: str) -> Sample:
    """One stream over a connection of its own; what opening it takes is not counted."""
    document = caller.body(text, stream=True, tokens=TOKENS, gap_ms=GAP_MS, max_tokens=TOKENS)
    headers = caller.headers()
    if way == GATED:
        headers |= signed(grant(caller.key_id, tenant=caller.tenant, **gate.LIMITS))
    body = json.dumps(document).encode()
    plan = Plan(lambda _: body, 1, count=1, headers=tuple(headers.items()), path=CHAT)
    connection = Connection(url, plan)
    try:
        return await connection.ask(body)
    finally:
        connection.close()


def _stages(edge: Edge) -> dict[str, float]:
    """The median of each stage until the model server's first content, from the edge's log."""
    lines = [line for line in edge.lines() if line.get("status") == 200 and line.get("stages")]
    names = dict.fromkeys(name for line in lines for name in line["stages"])
    told = [line["stages"] for line in lines[STREAMS * WARM_UP :]]
    return {
        name: statistics.median(stages.get(name, 0.0) for stages in told)
        for name in names
        if name not in ("stream", "collect", "forward")
    }


def _cuts(times: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100)
    return {"n": len(times), "p50": cuts[49], "p90": cuts[89]}


def lines(found: Both) -> list[str]:
    """Three tables: ways, stages of the edges, steps of the gate."""
    told = ["", f"{STREAMS} streams, n={found.n} each, first byte in ms", ""]
    told.append(f"{'way':<20} {'p50':>7} {'p90':>7}")
    for way in WAYS:
        cuts = _cuts(found.first_byte_ms[way])
        told.append(f"{way:<20} {cuts['p50']:>7.2f} {cuts['p90']:>7.2f}")
    told.append("")
    told.append(f"both gates add to the edge's path  {found.added_ms:+.2f} ms p50 (aim: at most 1)")
    told.append(
        f"  with guardrails                  {found.p50(RULES) - found.p50(BARE):+.2f} ms p50"
    )
    told.append(
        f"  the gate alone                   {found.p50(GATED) - found.p50(DIRECT):+.2f} ms p50"
    )
    told += ["", f"{'stage of the edge, p50':<22} {BARE:>8} {BOTH:>12} {RULES:>18}"]
    for name in found.stages_ms[BOTH]:
        each = [found.stages_ms[way].get(name, 0.0) for way in (BARE, BOTH, RULES)]
        told.append(f"{name:<22} {each[0]:>8.3f} {each[1]:>12.3f} {each[2]:>18.3f}")
    told += ["", "step of the gate, p50"]
    told += [f"{name:<22} {took:>8.3f}" for name, took in found.steps_ms.items()]
    return told
