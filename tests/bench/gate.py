"""What the gate adds to a request, measured beside the same server without it.

    python -m bench.gate [--requests 1000] [--json]

One uvicorn process serves a tiny engine twice: bare, and behind a gate with a real Redis. The
client asks both in turn, so that noise of the machine meets both alike. An answer's tokens come
at a steady pace, since servers that are saturated show their throughput and not their latency.
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
from collections.abc import Iterator
from pathlib import Path

import uvloop

from fakes.engine import SECRET, Engine, events, grant, listening, signed
from fakes.redis_process import RedisServer
from gpu_backend.gate import Gate
from gpu_backend.gate.settings import Settings
from gpu_backend.gate.upstream import Upstream

TOKENS = 16
GAP_MS = {1: 0, 64: 30}  # by streams
PATHS = Path(__file__).parents[1], Path(__file__).parents[2] / "gpu-backend"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", metavar="REDIS", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        uvloop.run(_serve(asked.serve))
        return 0
    with tempfile.TemporaryDirectory() as folder, _redis(Path(folder)) as redis:
        figures = [_measure(redis, streams, asked.requests) for streams in GAP_MS]
    for figure in figures:
        print(json.dumps(figure) if asked.json else _line(figure))
    return 0


@contextlib.contextmanager
def _redis(folder: Path) -> Iterator[str]:
    server = RedisServer(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


async def _serve(redis: str) -> None:
    """The process that is measured; it ends when its standard input closes."""
    settings = Settings(secrets=(SECRET,), redis=redis, max_running=1000)
    bare = Engine(keep=False)
    async with listening(bare) as without, listening(Gate(Engine(keep=False), settings)) as gated:
        print(json.dumps([without, gated]), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _measure(redis: str, streams: int, requests: int) -> dict[str, float]:
    argv = [sys.executable, "-m", "bench.gate", "--serve", redis]
    path = os.pathsep.join([*map(str, PATHS), *filter(None, sys.path)])
    with subprocess.Popen(
        argv, env=os.environ | {"PYTHONPATH": path}, stdin=-1, stdout=-1, text=True
    ) as server:
        assert server.stdout is not None
        without, gated = json.loads(server.stdout.readline())
        try:
            return uvloop.run(_ask(without, gated, streams, requests))
        finally:
            assert server.stdin is not None
            server.stdin.close()


async def _ask(without: str, gated: str, streams: int, requests: int) -> dict[str, float]:
    servers = {"without": Upstream(without), "gated": Upstream(gated)}
    taken: dict[str, list[float]] = {name: [] for name in servers}
    expected = sum(map(len, events(TOKENS, "final")))

    async def client(number: int) -> None:
        for turn in range(requests // streams):
            for name, server in servers.items():
                limits = {"rpm": 10**6, "tpm": 10**9, "par": 10**4, "month": 10**12}
                # Clients in step would measure the queue that they form themselves.
                pause_s = random.random() * GAP_MS[streams] * TOKENS / 1000  # noqa: S311
                await asyncio.sleep(pause_s)
                granted = grant(f"k{number % 8}", **limits)
                took_s = await _one(server, signed(granted), GAP_MS[streams], expected)
                if turn >= min(20, requests // streams // 4):  # the first ones warm up
                    taken[name].append(took_s * 1000)

    await asyncio.gather(*(client(number) for number in range(streams)))
    figures: dict[str, float] = {"streams": streams, "n": len(taken["gated"])}
    for name, times in taken.items():
        cuts = statistics.quantiles(times, n=100)
        figures |= {f"{name}_p50_ms": cuts[49], f"{name}_p90_ms": cuts[89]}
    return figures | {"added_p50_ms": figures["gated_p50_ms"] - figures["without_p50_ms"]}


async def _one(server: Upstream, headers: dict[str, str], gap_ms: int, expected: int) -> float:
    body = json.dumps({"stream": True, "tokens": TOKENS, "gap_ms": gap_ms}).encode()
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent.append((b"content-length", b"%d" % len(body)))
    request = server.request("POST", b"/v1/chat/completions", sent) + body
    connection = await server.connect()
    began = time.perf_counter()
    await connection.send(request, bare=False)
    assert connection.status == 200, connection.status
    first_s = time.perf_counter() - began
    size = 0
    while piece := await connection.read():
        size += len(piece)
    server.keep(connection)
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
