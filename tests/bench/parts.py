"""The measurements: each runs its targets in turns, so that all see the same machine."""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import figures, load
from .load import Plan, Result
from .processes import cpu_s, pss_bytes, rss_bytes
from .target import Target
from .targets import CHUNKS, Targets

Row = dict[str, Any]
FORWARDERS = ("direct", "edge", "passthrough", "handon", "nginx", "vllm-router")

# A paced stream lasts 50 ms and 15 gaps of 10 ms.
PACED_S = 0.2


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int = 4
    seconds: float = 3.0  # of one target in one round, where a rate is measured
    streams: int = 30  # of one target in one round, where single streams are measured


def body(marker: str, target: Target, *, unique: bool = True) -> Callable[[int], bytes]:
    """The bodies of a run: cacheable, and each new to the cache unless told otherwise.

    `seed` makes an answer cacheable and is part of the cache's key; the upstream ignores it.
    """
    message = {"role": "user", "content": f"{marker} please count the words of this sentence"}
    template = json.dumps(
        {"model": target.model, "messages": [message], "stream": True, "temperature": 0}
    )
    head = template[:-1].encode()
    if not unique:
        return lambda _: head + b"}"
    salt = str(next(_RUNS))
    return lambda number: head + f', "seed": {salt}{number:07d}}}'.encode()


async def paced(
    targets: Targets,
    effort: Effort,
    levels: Sequence[int] = (1, 64),
    names: Sequence[str] = FORWARDERS,
) -> list[Row]:
    """What is added to the first content over the direct call, at so many streams at once."""
    rows = []
    for streams in levels:
        count = effort.streams if streams == 1 else effort.streams * 8

        def plan(target: Target, streams: int = streams, count: int = count) -> Plan:
            return _plan("PACED", target, streams, count=count, spread_s=PACED_S, warm_up=1)

        chosen = targets.of(*names)
        runs, cpu = await _in_turns(chosen, plan, effort.rounds)
        base = figures.first_content(runs["direct"])
        for target in chosen:
            own = figures.first_content(runs[target.name])
            rows.append(
                _row("paced", target, streams, runs, cpu)
                | _ms("first_content", own)
                | {
                    "added_p50_ms": figures.less(own.p50_ms, base.p50_ms),
                    "added_p99_ms": figures.less(own.p99_ms, base.p99_ms),
                }
            )
    return rows


async def saturation(
    targets: Targets, effort: Effort, names: Sequence[str] = FORWARDERS
) -> list[Row]:
    """Streams a second without pauses, at 32 and 64 streams, beside vllm-router's."""
    rows = []
    for streams in (32, 64):

        def plan(target: Target, streams: int = streams) -> Plan:
            return _plan("BURST", target, streams, seconds=effort.seconds, warm_up=1)

        chosen = targets.of(*names)
        runs, cpu = await _in_turns(chosen, plan, effort.rounds)
        router = figures.rate(runs["vllm-router"]) if "vllm-router" in runs else None
        for target in chosen:
            rate = figures.rate(runs[target.name])
            rows.append(
                _row("saturation", target, streams, runs, cpu)
                | {"streams_a_s": rate, "ratio_to_router": figures.ratio(rate, router)}
                | _ms("to_end", figures.to_end(runs[target.name]))
            )
    return rows


async def cache(targets: Targets, effort: Effort) -> list[Row]:
    """Cache hits a second with 8 connections, beside the bare hello-world component."""

    def plan(target: Target) -> Plan:
        return _hit_plan(target, 8, seconds=effort.seconds)

    chosen = targets.of("hello", "edge")
    runs, cpu = await _in_turns(chosen, plan, effort.rounds)
    hello = figures.rate(runs["hello"]) if "hello" in runs else None
    rows = []
    for target in chosen:
        rate = figures.rate(runs[target.name])
        rows.append(
            _row("cache", target, 8, runs, cpu)
            | {"requests_a_s": rate, "ratio_to_hello": figures.ratio(rate, hello)}
            | _ms("to_end", figures.to_end(runs[target.name]))
        )
    return rows


async def fresh(targets: Targets, effort: Effort) -> list[Row]:
    """A new instance for every request beside a warm one, at one connection."""

    def plan(target: Target) -> Plan:
        return _hit_plan(target, 1, count=effort.streams * 3)

    chosen = targets.of("hello", "hello-fresh", "edge", "edge-fresh")
    runs, cpu = await _in_turns(chosen, plan, effort.rounds)
    rows = []
    for target in chosen:
        own = figures.first_byte(runs[target.name])
        warm = target.name.removesuffix("-fresh")
        base = figures.first_byte(runs[warm]).p50_ms if warm in runs else None
        rows.append(
            _row("fresh", target, 1, runs, cpu)
            | _ms("first_byte", own)
            | {"added_p50_ms": figures.less(own.p50_ms, base)}
        )
    return rows


async def memory(targets: Targets, effort: Effort, names: Sequence[str] = FORWARDERS) -> list[Row]:
    """The largest memory seen while 64 paced streams are open.

    RSS counts a page once for each place it is mapped at, and instances share the pages of their
    image: PSS shares those out.
    """
    rows = []
    for target in targets.of(*names):
        if target.pid is None:
            print(f"no process id of {target.name}: no memory of it", file=sys.stderr)
            continue
        before = rss_bytes(target.pid)
        plan = _plan("PACED", target, 64, seconds=effort.seconds, spread_s=PACED_S)
        running = asyncio.create_task(load.run(target.url, plan))
        rss, pss = [before], [0]
        while not running.done():
            rss.append(rss_bytes(target.pid))
            pss.append(pss_bytes(target.pid))
            await asyncio.sleep(0.2)
        runs = {target.name: [await running]}
        most = {"rss_before_mib": _mib(before), "rss_most_mib": _mib(max(rss))}
        rows.append(_row("memory", target, 64, runs, {}) | most | {"pss_most_mib": _mib(max(pss))})
    return rows


PARTS: dict[str, tuple[Callable[[Targets, Effort], Any], tuple[str, ...]]] = {
    # First, since a process seldom gives back what a heavy load made it take.
    "memory": (memory, FORWARDERS),
    "paced": (paced, FORWARDERS),
    "saturation": (saturation, FORWARDERS),
    "cache": (cache, ("hello", "edge")),
    "fresh": (fresh, ("hello", "hello-fresh", "edge", "edge-fresh")),
}

# Numbers the runs, so that none meets what another one left in a cache; with the time in it,
# since an edge may outlive this process. With seven digits more it stays within 64 bits.
_RUNS = itertools.count(int(time.time()) % 10**8 * 1000)


def _plan(marker: str, target: Target, streams: int, **fields: Any) -> Plan:
    return Plan(
        body=body(marker, target),
        streams=streams,
        chunks=CHUNKS,
        headers=target.headers,
        **fields,
    )


def _hit_plan(target: Target, streams: int, **fields: Any) -> Plan:
    bodies = body("BURST", target, unique=False)
    return Plan(body=bodies, streams=streams, headers=target.headers, warm_up=2, **fields)


async def _in_turns(
    targets: Sequence[Target], plan: Callable[[Target], Plan], rounds: int
) -> tuple[dict[str, list[Result]], dict[str, float]]:
    """Every target once a round, each round in another order; results and processor time."""
    runs: dict[str, list[Result]] = {target.name: [] for target in targets}
    cpu = {target.name: 0.0 for target in targets}
    for number in range(rounds):
        turn = number % max(1, len(targets))
        for target in (*targets[turn:], *targets[:turn]):
            before = cpu_s(target.pid) if target.pid else 0.0
            runs[target.name].append(await load.run(target.url, plan(target)))
            after = cpu_s(target.pid) if target.pid else 0.0
            cpu[target.name] += after - before
    return runs, cpu


def _row(
    part: str,
    target: Target,
    streams: int,
    runs: dict[str, list[Result]],
    cpu: dict[str, float],
) -> Row:
    results = runs[target.name]
    total = sum(len(result.samples) for result in results)
    sent = sum(result.sent for result in results)
    known = target.pid is not None and sent and target.name in cpu
    return {
        "part": part,
        "target": target.name,
        "streams": streams,
        "n": total,
        "error_rate": figures.error_rate(results),
        "errors": figures.errors(results),
        "x_cache": " ".join(sorted({s.cache for r in results for s in r.good if s.cache})) or None,
        "cpu_ms_each": cpu[target.name] * 1000 / sent if known else None,
    }


def _ms(name: str, latency: figures.Latency) -> Row:
    return {f"{name}_{key}": value for key, value in asdict(latency).items() if key != "n"}


def _mib(size: int) -> float | None:
    return size / (1 << 20) if size else None
