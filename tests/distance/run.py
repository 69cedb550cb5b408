"""Starts one path of each kind and a paced model server, and lets the user ask at each distance."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distance.links import TESTS, Links
from distance.places import Host, Place
from nearfar import checkout, edge, process
from nearfar.guard import Guard
from nearfar.placement.address import Address
from nearfar.placement.dial import Line
from nearfar.placement.processes import marks_told
from nearfar.ports import free_port
from nearfar.process import Child
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, settings
from stack.stores import RedisServer

FIRST_CONTENT_MS = 50.0
READY_TIMEOUT_S = 60


@dataclass(slots=True)
class Found:
    """The user's samples at one place."""

    place: Place
    samples: list[Mapping[str, Any]]
    wrong: Sequence[str] = ()

    def values(self, answer: str, connection: str, name: str = "first_content_ms") -> list[float]:
        """One figure of one kind of sample."""
        chosen = [s for s in self.samples if (s["answer"], s["connection"]) == (answer, connection)]
        return [float(s[name]) for s in chosen if s[name] is not None]


@dataclass(slots=True)
class Paths:
    """The path in both of its hosts, asked by a user over links."""

    links: Links
    ports: Mapping[Host, int]
    caller: Caller = field(default_factory=Caller)

    def measure(self, place: Place, repeats: int) -> Found:
        """Set the distance and let the user ask."""
        self.links.set(place.user_ms, place.gpu_ms)
        host, port = self.links.user_asks(self.ports[place.host])
        job = {
            "host": host,
            "port": port,
            "key": self.caller.key,
            "repeats": repeats,
            "tag": f"{self.caller.marker} {secrets.token_hex(4)}",
        }
        asker = [sys.executable, "-P", "-m", "distance.asker", json.dumps(job)]
        # Not from the folder of the tests, where packages have the names of the project's own.
        env = os.environ | {"PYTHONPATH": f"{checkout.python_path(checkout.here())}:{TESTS}"}
        argv = self.links.at_user(asker)
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the user's process failed: {done.stderr[-400:]}")
        said = json.loads(done.stdout)
        return Found(place, said["samples"], said["wrong"])


@contextmanager
def started(links: Links, component: Path, run: Path) -> Iterator[Paths]:
    """The model server at the GPU's place, a store and both paths in between."""
    with ExitStack() as exits:
        guard = Guard()
        exits.callback(guard.close)
        store = RedisServer(run, guard)
        store.start()
        exits.callback(store.kill)
        exits.enter_context(_model_server(links))
        values = settings({"mock": links.gpu_url()}, store.url)
        ports: dict[Host, int] = {}
        starters: dict[Host, Callable[..., Child]] = {"component": _component, "process": _process}
        for host, start in starters.items():
            ports[host] = free_port()
            child = start(links, component, run, guard, values, ports[host])
            exits.callback(child.stop)
            _wait(links, child, ports[host])
        yield Paths(links, ports)


@contextmanager
def _model_server(links: Links) -> Iterator[None]:
    host, port = links.gpu_listens()
    argv = [sys.executable, "-m", "fakes.upstream", "--host", host, "--port", str(port)]
    argv += ["--api-key", UPSTREAM_KEY, "--first-content-ms", str(FIRST_CONTENT_MS)]
    with subprocess.Popen(links.at_gpu(argv), cwd=TESTS, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise RuntimeError("the model server did not start")
            yield
        finally:
            server.kill()


def _component(
    links: Links, component: Path, run: Path, guard: Guard, values: Mapping[str, str], port: int
) -> Child:
    argv = edge.wasmtime_argv(component, edge.ServeOptions(port), values)
    argv[argv.index(f"127.0.0.1:{port}")] = f"{links.path_listens()}:{port}"
    env = edge.host_environment("wasmtime", values)
    return process.start("edge", argv, log=run / "edge.log", env=env, guard=guard, cwd=run)


def _process(
    links: Links, _component: Path, run: Path, guard: Guard, values: Mapping[str, str], port: int
) -> Child:
    argv = [sys.executable, "-P", "-m", "nearfar.placement.plain"]
    argv += ["--host", links.path_listens(), "--port", str(port)]
    env = edge.host_environment("wasmtime", values)
    env["PYTHONPATH"] = checkout.python_path(checkout.here())
    log = run / "plain.log"
    child = process.start("container", argv, log=log, env=env, guard=guard, cwd=run)
    marks_told(child, "listening")
    return child


def _wait(links: Links, child: Child, port: int) -> None:
    """Wait until the path answers, and let it have answered: no start is measured here."""
    address = Address(secure=False, host=links.path_listens(), port=port, base="")
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        child.check()
        try:
            with Line(address) as line:
                if line.ask("/readyz").status == 200:
                    return
        except Exception:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
