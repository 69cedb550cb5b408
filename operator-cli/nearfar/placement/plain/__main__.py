"""The process: `python -m nearfar.placement.plain --port 8080`, with the settings of any edge.

It says on stdout when it came how far, in nanoseconds of the machine's monotonic clock, which all
processes of a Linux machine share.
"""

import time

BEGAN_NS = time.monotonic_ns()

import argparse  # noqa: E402 - the first instant is before any import of ours
import json  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402

import uvicorn  # noqa: E402
import uvloop  # noqa: E402

from edge_frontend.errors import Misconfigured  # noqa: E402
from nearfar.placement.plain.asgi import PlainApp  # noqa: E402


class Server(uvicorn.Server):
    """Says when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        told("listening", time.monotonic_ns())


def told(mark: str, at_ns: int) -> None:
    """Write one instant."""
    print(json.dumps({"mark": mark, "monotonic_ns": at_ns}), flush=True)


def main() -> int:
    """Serve until a signal; the status is 2 for wrong settings."""
    told("interpreter", BEGAN_NS)
    told("imports", time.monotonic_ns())
    parser = argparse.ArgumentParser(description="The edge's core in a plain server process.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    asked = parser.parse_args()
    try:
        app = PlainApp(os.environ)
    except Misconfigured as error:
        print(error.message, file=sys.stderr)
        return 2
    told("settings", time.monotonic_ns())
    config = uvicorn.Config(
        app,
        host=asked.host,
        port=asked.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    uvloop.run(Server(config).serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
