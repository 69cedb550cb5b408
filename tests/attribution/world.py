"""Everything around two edges, in one process of its own: links and fake model servers.

    python -m attribution.world --redis PORT --api-key KEY

Its first line says where everything is. Each line that it reads sets one side's delays anew, as
{"side": "after", "far": 30}, or its edge's port, and is answered by a line. It is one
process, and one loop in it, so that nothing here waits for anything else's turn; and it is not the
process that measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from typing import Any

from attribution.places import Pace
from fakes.link import Link
from fakes.script import Script
from fakes.upstream import Upstream

SIDES = ("before", "after")
_LINKS = ("client", "near", "far")


def script(pace: Pace) -> Script:
    """How the engine answers at this pace, and what it tells of it, which is the truth."""
    return Script(
        content="word " * pace.chunks,
        chunks=pace.chunks,
        first_content_ms=pace.queue_ms + pace.prefill_ms,
        gap_ms=pace.decode_ms / (pace.chunks - 1),
        metrics={
            "queue_time_ms": pace.queue_ms,
            "time_to_first_token_ms": pace.prefill_ms,
            "generation_time_ms": pace.decode_ms,
            "mean_itl_ms": pace.decode_ms / (pace.chunks - 1),
            "tokens_per_second": 1000 * (pace.chunks - 1) / pace.decode_ms,
        },
    )


class Side:
    """What stands around one edge."""

    def __init__(self, redis_port: int, api_key: str) -> None:
        self.upstream = Upstream(script(Pace()), api_key=api_key, keep=100)
        # The edge's port is told later: it starts when it knows where all this is.
        self.links = {"client": Link("127.0.0.1", 0), "near": Link("127.0.0.1", redis_port)}

    async def begin(self, exits: AsyncExitStack) -> dict[str, Any]:
        """Start everything; where it is."""
        await exits.enter_async_context(self.upstream)
        self.links["far"] = Link("127.0.0.1", self.upstream.port)
        for link in self.links.values():
            await exits.enter_async_context(link)
        return {name: self.links[name].port for name in _LINKS}

    def set(self, told: dict[str, Any]) -> None:
        """Put these delays, and take every other one away; a link's is of a round trip."""
        if "edge" in told:
            self.links["client"].target = ("127.0.0.1", int(told["edge"]))
        for name, link in self.links.items():
            link.up_ms = link.down_ms = float(told.get(name, 0.0)) / 2
        pace = Pace()
        more = {name: told[name] for name in asdict(pace) if name in told}
        changed = {name: getattr(pace, name) + value for name, value in more.items()}
        self.upstream.script = script(replace(pace, **changed))


async def main() -> None:
    """Serve until the input ends."""
    parser = argparse.ArgumentParser(prog="world")
    parser.add_argument("--redis", type=int, required=True)
    parser.add_argument("--api-key", required=True)
    given = parser.parse_args()
    async with AsyncExitStack() as exits:
        sides = {name: Side(given.redis, given.api_key) for name in SIDES}
        print(json.dumps({n: await side.begin(exits) for n, side in sides.items()}), flush=True)
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            told = json.loads(line)
            sides[told["side"]].set(told)
            print("{}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
