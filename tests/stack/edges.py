"""Edge processes: the built component in the real wasmtime, on a free port."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from nearfar import edge, process
from nearfar.errors import PartDied
from nearfar.guard import Guard
from nearfar.ports import free_port
from nearfar.process import Child

SECRET = "operator-secret-of-the-stack-tests-0001"
UPSTREAM_KEY = "canary-upstream-key-7d1f"
READY_TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Edge:
    """One running edge process."""

    url: str
    child: Child

    def lines(self) -> list[dict[str, Any]]:
        """The requests it has logged so far; the host's own lines are no JSON."""
        lines = self.log_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log_text(self) -> str:
        """Everything it has written to stdout and stderr."""
        return self.child.log.read_text(encoding="utf-8")

    def kill(self) -> None:
        """End it at once, without a chance to clean up."""
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.popen.wait()


@dataclass(slots=True)
class Edges:
    """Starts edges and stops them all."""

    component: Path
    run: Path
    guard: Guard
    started: list[Edge] = field(default_factory=list)

    def start(
        self,
        settings: Mapping[str, str],
        *,
        reuse_count: int | None = None,
        wait: bool = True,
    ) -> Edge:
        """Serve the component with these settings until it answers."""
        for _ in range(3):  # another program may take the free port first
            with contextlib.suppress(PartDied):
                return self._start(settings, reuse_count, wait=wait)
        return self._start(settings, reuse_count, wait=wait)

    def stop(self) -> None:
        """End every edge that was started here."""
        for each in self.started:
            each.child.stop()
        self.started.clear()

    def _start(self, settings: Mapping[str, str], reuse_count: int | None, *, wait: bool) -> Edge:
        options = edge.ServeOptions(free_port(), reuse_count)
        number = len(list(self.run.glob("edge-*.log")))
        child = process.start(
            "edge",
            edge.wasmtime_argv(self.component, options, settings),
            log=self.run / f"edge-{number}.log",
            env=edge.host_environment("wasmtime", settings),
            guard=self.guard,
            cwd=self.run,
        )
        found = Edge(f"http://127.0.0.1:{options.port}", child)
        self.started.append(found)
        if wait:
            process.wait_until(lambda: _answers(found), child, READY_TIMEOUT_S, "did not answer")
        return found


def settings(
    models: Mapping[str, str | Mapping[str, Any]], store_url: str, **more: str | int
) -> dict[str, str]:
    """Settings with one upstream for each model: its address, or its whole entry with a `url`.

    Every upstream serves the model under the name `mock`. `more` are settings by their names in
    lower case, without prefix.
    """
    entries = {name: {"url": e} if isinstance(e, str) else dict(e) for name, e in models.items()}
    table = {
        "version": "stack-tests-1",
        "upstreams": {f"gpu-{name}": {"url": e.pop("url")} for name, e in entries.items()},
        "models": {n: {"upstream": f"gpu-{n}", "model": "mock", **e} for n, e in entries.items()},
    }
    values: dict[str, str | int] = {
        "routes": json.dumps(table),
        "upstream_keys": json.dumps(dict.fromkeys(table["upstreams"], UPSTREAM_KEY)),
        "key_secret": SECRET,
        "store": store_url,
        **more,
    }
    return {f"NEARFAR_{name.upper()}": str(value) for name, value in values.items()}


def _answers(found: Edge) -> bool:
    try:
        return httpx.get(f"{found.url}/healthz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
