"""The edge under test: the built component in wasmtime, beside a Redis, as `nearfar up` runs it."""

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx

from nearfar import build, checkout, credentials, edge, gate, process, readiness, store, wiring
from nearfar.engine import Served
from nearfar.errors import NearfarError
from nearfar.guard import Guard
from nearfar.ports import free_port

from .processes import NotAvailable
from .target import Target

MODEL = "mock"


class Near:
    """Starts edges with one store between them, and ends them all."""

    def __init__(self, run: Path, upstream_url: str) -> None:
        run.mkdir(parents=True, exist_ok=True)
        self._run = run
        self._served = Served(upstream_url, MODEL)
        self._kept = credentials.ensure(run / credentials.FILE)
        self._exits = ExitStack()
        self._guard = Guard()
        self._exits.callback(self._guard.close)
        self._store_url = ""

    def start(self, name: str, *, fresh: bool = False, gated: bool = False) -> Target:
        """The edge once it is ready; `fresh`: with a new instance for every request.

        `gated`: with the gate as a process between it and the upstream, which counts in Redis.

        Raises:
            NotAvailable: when it cannot be built or started, or answers without a key.
        """
        try:
            target = self._start(name, fresh=fresh, gated=gated)
        except NearfarError as problem:
            raise NotAvailable(f"{problem.message} {problem.next_step}".strip()) from problem
        self._check_it_authenticates(target)
        return target

    def stop(self) -> None:
        """End every process that was started here."""
        self._exits.close()

    def _start(self, name: str, *, fresh: bool, gated: bool) -> Target:
        component = build.component(checkout.here(), "wasmtime", _say)
        options = edge.ServeOptions(free_port())
        if fresh:
            options = replace(options, max_instance_reuse_count=1)
        settings = self._settings(gated=gated)
        began = time.monotonic()
        child = process.start(
            name,
            edge.wasmtime_argv(component, options, settings),
            log=self._run / f"{name}.log",
            env=edge.host_environment("wasmtime", settings),
            guard=self._guard,
            cwd=self._run,
        )
        self._exits.callback(child.stop)
        url = f"http://127.0.0.1:{options.port}"
        readiness.wait_ready(url, child)
        start_s = time.monotonic() - began
        _, key = wiring.local_key(self._kept.key_secret)
        return Target(name, url, MODEL, key, child.pid, start_s)

    def _settings(self, *, gated: bool) -> Mapping[str, str]:
        if not self._store_url:
            started = store.start(self._run, self._guard)
            self._exits.callback(started.child.stop)
            self._store_url = started.url
        served = self._behind_a_gate() if gated else self._served
        return wiring.edge_settings(self._kept, served, self._store_url)

    def _behind_a_gate(self) -> Served:
        """The upstream with a gate before it, whose bounds stay out of the way."""
        redis_url = gate.database_beside(self._store_url)
        given = gate.environment(self._kept.gate_secret, redis_url)
        here = checkout.here()
        child, url = gate.start(
            replace(here, run=self._run),
            self._guard,
            self._served.url,
            given | {"NEARFAR_GATE_MAX_RUNNING": "10000"},
        )
        self._exits.callback(child.stop)
        return replace(self._served, url=url, gated=True)

    def _check_it_authenticates(self, target: Target) -> None:
        """An edge that lets anybody in would be measured too fast."""
        document = {"model": MODEL, "messages": [{"role": "user", "content": "BURST"}]}
        answer = httpx.post(f"{target.url}/v1/chat/completions", json=document, trust_env=False)
        if answer.status_code != 401:
            raise NotAvailable(f"it answered {answer.status_code} to a request without a key")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
