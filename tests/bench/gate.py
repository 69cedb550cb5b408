"""What the gates add to a request, measured beside the same path without them.

    python -m bench.gate [--requests 1000] [--both] [--json]

First the gate beside the model server alone: one uvicorn process serves a tiny engine twice, bare
and behind a gate with a real Redis. With --both then the two gates of the whole path: edges with
and without what the gate needs of them (limits, grants, admission; and guardrails beside) before
the bare engine and before the gated one, and the engines asked directly. The clients ask all in
turn, so that noise of the machine meets all alike. An answer's tokens come at a steady pace, since
servers that are saturated show their throughput and not their latency.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from fakes.engine import events, grant, signed
from fakes.redis_process import RedisServer
from gpu_backend.gate.upstream import Upstream

TOKENS = 16
GAP_MS = {1: 0, 64: 30}  # by streams
LIMITS = {"rpm": 10**6, "tpm": 10**9, "par": 10**4, "month": 10**12}
PATHS = Path(__file__).parents[1], Path(__file__).parents[2] / "gpu-backend"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--both", action="store_true", help="measure the edges too")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as redis:
        figures = [_measure(redis, streams, asked.requests) for streams in GAP_MS]
        for figure in figures:
            print(json.dumps(figure) if asked.json else _line(figure), flush=True)
        if asked.both:
            # Only here: it builds the component.
            from .both_gates import lines, measure

            found = measure(Path(folder), redis, asked.requests)
            print(json.dumps(found.document()) if asked.json else "\n".join(lines(found)))
    return 0


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis of the gate's own."""
    server = RedisServer(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@dataclass(slots=True)
class Server:
    """The process that is measured: a bare and a gated engine; `steps` are known at its end."""

    bare: str
    gated: str
    steps: Mapping[str, float] = field(default_factory=dict)


@contextlib.contextmanager
def server(redis: str) -> Iterator[Server]:
    """Start it and end it."""
    argv = [sys.executable, "-m", "bench.gate_server", redis]
    path = os.pathsep.join([*map(str, PATHS), *filter(None, sys.path)])
    with subprocess.Popen(
        argv, env=os.environ | {"PYTHONPATH": path}, stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        found = Server(*json.loads(process.stdout.readline()))
        try:
            yield found
        finally:
            process.stdin.close()
            found.steps = json.loads(process.stdout.readline() or "{}")


def _measure(redis: str, streams: int, requests: int) -> dict[str, float]:
    with server(redis) as found:
        return uvloop.run(_ask(found.bare, found.gated, streams, requests))


async def _ask(without: str, gated: str, streams: int, requests: int) -> dict[str, float]:
    servers = {"without": Upstream(without), "gated": Upstream(gated)}
    taken: dict[str, list[float]] = {name: [] for name in servers}
    expected = sum(map(len, events(TOKENS, "final")))

    async def client(number: int) -> None:
        for turn in range(requests // streams):
            for name, asked in servers.items():
                # Clients in step would measure the queue that they form themselves.
                pause_s = random.random() * GAP_MS[streams] * TOKENS / 1000  # noqa: S311
                await asyncio.sleep(pause_s)
                granted = grant(f"k{number % 8}", **LIMITS)
                took_s = await _one(asked, signed(granted), GAP_MS[streams], expected)
                if turn >= min(20, requests // streams // 4):  # the first ones warm up
                    taken[name].append(took_s * 1000)

    await asyncio.gather(*(client(number) for number in range(streams)))
    figures: dict[str, float] = {"streams": streams, "n": len(taken["gated"])}
    for name, times in taken.items():
        cuts = statistics.quantiles(times, n=100)
        figures |= {f"{name}_p50_ms": cuts[49], f"{name}_p90_ms": cuts[89]}
    return figures | {"added_p50_ms": figures["gated_p50_ms"] - figures["without_p50_ms"]}


async def _one(asked: Upstream, headers: dict[str, str], gap_ms: int, expected: int) -> float:
    body = json.dumps({"stream": True, "tokens": TOKENS, "gap_ms": gap_ms}).encode()
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent.append((b"content-length", b"%d" % len(body)))
    request = asked.request("POST", b"/v1/chat/completions", sent) + body
    connection = await asked.connect()
    began = time.perf_counter()
    await connection.send(request, bare=False)
    assert connection.status == 200, connection.status
    first_s = time.perf_counter() - began
    size = 0
    while piece := await connection.read():
        size += len(piece)
    asked.keep(connection)
    assert size == expected, (size, expected)
    return first_s


def _line(figure: dict[str, float]) -> str:
    return (
        f"{figure['streams']:>3.0f} streams, n={figure['n']:.0f}: first byte "
        f"{figure['without_p50_ms']:.2f}/{figure['without_p90_ms']:.2f} ms without, "
        f"{figure['gated_p50_ms']:.2f}/{figure['gated_p90_ms']:.2f} ms behind the gate (p50/p90), "
        f"+{figure['added_p50_ms']:.2f} ms p50"
    )


if __name__ == "__main__":
    sys.exit(main())
