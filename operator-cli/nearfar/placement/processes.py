"""Processes that are started to see how long that takes, each in a folder of the run's own."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edge_frontend import keys
from nearfar import checkout, edge, process
from nearfar.checkout import Checkout
from nearfar.errors import Missing, PartDied
from nearfar.guard import Guard
from nearfar.logs import last_lines
from nearfar.placement.address import Address
from nearfar.placement.dial import Line, Reply
from nearfar.ports import free_port
from nearfar.process import Child

QUESTION = "/v1/models"
# A port is asked this often; a mark that rests on it is so much late at most.
POLL_S = 0.001
_SECRET = "of measured starts alone, thrown away with them"  # noqa: S105 - it opens nothing else
START_TIMEOUT_S = 180.0


@dataclass(slots=True)
class Bench:
    """Where the measured processes live. Their edge has no store, and a model that nobody serves.

    They are asked `GET /v1/models` with a key, which the core answers by itself.
    """

    here: Checkout
    run: Path
    guard: Guard
    count: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        routes = {
            "version": "coldstart",
            "upstreams": {"gpu": {"url": "http://127.0.0.1:9"}},
            "models": {"none": {"upstream": "gpu"}},
        }
        self.settings = {
            "NEARFAR_ROUTES": json.dumps(routes),
            "NEARFAR_KEY_SECRET": _SECRET,
            "NEARFAR_STORE": "none",
        }

    def headers(self) -> dict[str, str]:
        """A key for an hour."""
        claims = keys.Claims("coldstart", "coldstart", int(time.time()) + 3600)
        return {"authorization": f"Bearer {keys.mint(_SECRET, claims)}"}

    def wasmtime(
        self, component: Path, reuse_count: int | None, *, precompiled: bool = True
    ) -> tuple[Child, Address]:
        """Start a host of the component; return at once."""
        usual = edge.ServeOptions(free_port())
        options = edge.ServeOptions(usual.port, reuse_count or usual.max_instance_reuse_count)
        argv = edge.wasmtime_argv(component, options, self.settings)
        if not precompiled:
            # What it compiled once it would keep in its owner's home, and find there the next time.
            at = argv.index("--allow-precompiled")
            argv[at : at + 1] = ["-C", "cache=n"]
        env = edge.host_environment("wasmtime", self.settings)
        return self._start("edge", argv, env), _local(options.port)

    def plain(self) -> tuple[Child, Address]:
        """Start the plain server process; return at once."""
        port = free_port()
        argv = [sys.executable, "-P", "-m", "nearfar.placement.plain", "--port", str(port)]
        env = edge.host_environment("wasmtime", self.settings)
        env["PYTHONPATH"] = checkout.python_path(self.here)
        return self._start("container", argv, env), _local(port)

    def _start(self, name: str, argv: Sequence[str], env: Mapping[str, str]) -> Child:
        self.count += 1
        log = self.run / f"{name}-{self.count}.log"
        return process.start(name, argv, log=log, env=env, guard=self.guard, cwd=self.run)


@contextmanager
def ended(child: Child) -> Iterator[Child]:
    """A process that is ended with the block."""
    try:
        yield child
    finally:
        child.stop()


def wait_listening(child: Child, address: Address, timeout_s: float = START_TIMEOUT_S) -> float:
    """Wait until somebody takes a connection at this address; the instant in ns.

    Raises:
        PartDied: the process ended before that, or it took too long.
    """
    return _wait(child, lambda: _takes(address), timeout_s, "did not listen")


def ask_first(address: Address, headers: Mapping[str, str]) -> Reply:
    """Ask the question on a connection of its own.

    Raises:
        Missing: the answer is no success.
    """
    with Line(address) as line:
        reply = line.ask(QUESTION, headers)
    if reply.status != 200:
        raise Missing(
            f"A process that was started answers {reply.status} to {QUESTION}.",
            "look at its log in .nearfar/run/coldstart.",
        )
    return reply


def marks_told(child: Child, last: str, timeout_s: float = START_TIMEOUT_S) -> dict[str, int]:
    """The instants that a plain server process wrote, up to `last`; ns of the monotonic clock."""
    found: dict[str, int] = {}

    def told() -> bool:
        found.update(_told(child.log))
        return last in found

    _wait(child, told, timeout_s, f"did not say {last!r}")
    return found


def _told(log: Path) -> dict[str, int]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    marks = [json.loads(line) for line in lines if line.startswith('{"mark"') and line[-1] == "\n"]
    return {mark["mark"]: mark["monotonic_ns"] for mark in marks}


def _wait(child: Child, ready: Callable[[], bool], timeout_s: float, what: str) -> float:
    deadline = time.monotonic() + timeout_s
    while not ready():
        child.check()
        if time.monotonic() > deadline:
            raise PartDied(
                f"The process '{child.name}' {what} within {timeout_s:g} s.",
                f"read {child.log}.",
                last_lines(child.log),
            )
        time.sleep(POLL_S)
    return time.monotonic_ns()


def _takes(address: Address) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address.host, address.port)) == 0


def _local(port: int) -> Address:
    return Address(secure=False, host="127.0.0.1", port=port, base="")
