"""Runs the gate as a process of its own: `python -m gpu_backend.gate --upstream URL`.

It prints one JSON line on stdout when it listens, and ends on SIGTERM or SIGINT. Settings come
from the environment (docs/gate.md). Exit codes: 0 ended as asked, 2 wrong settings, 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence

import uvicorn
import uvloop

from gpu_backend.errors import GpuBackendError, PortTakenError
from gpu_backend.gate import Gate, settings
from gpu_backend.gate.proxy import Proxy
from gpu_backend.gate.upstream import Upstream

# How long open answers may go on after SIGTERM.
GRACE_S = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    parser = argparse.ArgumentParser("gpu_backend.gate", description="The gate before a server.")
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server behind it")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: a free one")
    asked = parser.parse_args(argv)
    try:
        upstream = Upstream(asked.upstream)
    except ValueError as error:
        parser.error(f"--upstream: {error}")
    try:
        gate = Gate(Proxy(upstream), settings.from_environment(os.environ))
        listening = _listen(asked.host, asked.port)
    except settings.SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except GpuBackendError as error:
        print(error, file=sys.stderr)
        return 1
    uvloop.run(_serve(gate, listening, asked.host))
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise PortTakenError(
            f"Port {port} of {host} cannot be used ({error.strerror}).",
            "stop what listens there, or choose another port.",
        ) from error
    return listening


async def _serve(gate: Gate, listening: socket.socket, host: str) -> None:
    config = uvicorn.Config(
        gate,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    server.url = f"http://{host}:{listening.getsockname()[1]}"
    await server.serve([listening])


class _Server(uvicorn.Server):
    """Tells its address once it listens."""

    url = ""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order on a signal, and with status 0: uvicorn's own way raises it again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(json.dumps({"url": self.url, "pid": os.getpid()}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
