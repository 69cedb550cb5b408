"""Starts the local stack part by part, watches it, and leaves nothing of it behind.

    build the component → store → engine with its gate (or somebody's upstream) → edge → ready

Each part is ready before the next one starts. A part that ends ends the stack, but for the store:
the edge answers without it, as it would anywhere else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from nearfar import (
    admin,
    build,
    console,
    credentials,
    edge,
    engine,
    gate,
    logs,
    process,
    program,
    state,
    store,
    wiring,
)
from nearfar.checkout import Checkout
from nearfar.credentials import Credentials
from nearfar.engine import Served
from nearfar.errors import Missing, NearfarError, PartDied
from nearfar.guard import Guard
from nearfar.interrupt import stop_on_signals
from nearfar.logs import Tail
from nearfar.ports import check_port
from nearfar.process import Part
from nearfar.readiness import wait_ready

# What the list of keys calls the key that is printed.
KEY_LABEL = "nearfar up"
_WATCH_S = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """What `nearfar up` was asked for. Without `upstream` a vLLM is started as `profile` says.

    That vLLM has the gate in it; `gate` puts one in front of an `upstream`.
    `verbose` shows all that the parts write, not their errors alone.
    """

    serve: edge.ServeOptions
    host: edge.Host = "wasmtime"
    upstream: Served | None = None
    profile: str = "cpu-small"
    store_url: str | None = field(default=None, repr=False)
    gate: bool = False
    verbose: bool = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.serve.port}"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that is ready, and what its parts write from then on."""

    state: state.State
    parts: tuple[Part, ...]
    tails: Mapping[str, Tail]

    def watch(self) -> None:
        """Pass on the parts' logs until one ends that the others cannot do without.

        Raises:
            PartDied: always, unless an interrupt comes first.
        """
        alive = list(self.parts)
        while True:
            for name, tail in self.tails.items():
                console.log_lines(name, tail.lines())
            alive = [part for part in alive if _goes_on(part)]
            time.sleep(_WATCH_S)


def _goes_on(part: Part) -> bool:
    """Whether the part is alive; a dead one that is needed raises."""
    try:
        part.check()
    except PartDied as problem:
        if part.needed:
            raise
        console.error(problem)
        console.say(f"going on without the {part.name}: nothing is cached, no key can be revoked")
        return False
    return True


def _last_key_id(entries: Sequence[admin.Entry]) -> str | None:
    """Return the id of the key that was printed last time, so that the list stays short."""
    for entry in entries:
        if entry.label == KEY_LABEL and entry.status(time.time()) == "valid":
            return entry.key_id
    return None


@contextmanager
def running(checkout: Checkout, options: Options) -> Iterator[Stack]:
    """Run a stack for as long as the context lasts.

    Raises:
        Missing: a port is taken, a program is absent, a part died or does not get ready.
    """
    with stop_on_signals(), state.held(checkout), ExitStack() as exits:
        _check(options)
        component = build.component(checkout, options.host, console.say)
        kept = credentials.ensure(checkout.run / credentials.FILE)
        starting = _Starting(checkout, options, kept, exits, Guard())
        exits.callback(starting.guard.close)
        store_url = starting.store()
        gate_redis = gate.database_beside(store_url)
        served = starting.engine(gate_redis)
        starting.edge(component, wiring.edge_settings(kept, served, store_url))
        ready = starting.finish(served, gate_redis if served.gated else "")
        state.write(checkout, ready)
        exits.callback(console.say, "stopping")
        yield Stack(ready, tuple(starting.parts), _tails(starting.parts, verbose=options.verbose))


def _check(options: Options) -> None:
    """Find out what cannot work before anything is built or started."""
    wiring.check_settings()
    check_port(options.serve.port)
    program.find(options.host)
    if options.upstream is not None:
        wiring.check_reachable(options.upstream)
    if options.store_url is not None and not store.answers(options.store_url):
        raise Missing("The store given with --redis does not answer.", "check its address.")


def _tails(parts: Sequence[Part], *, verbose: bool) -> dict[str, Tail]:
    """Follow all that the parts write, or the errors that they write from now on."""
    if verbose:
        return {part.name: Tail(part.log) for part in parts}
    return {part.name: Tail(part.log, wanted=logs.is_trouble, from_end=True) for part in parts}


@dataclass(slots=True)
class _Starting:
    """A stack that is being put together; `exits` ends each part that was started, last first."""

    checkout: Checkout
    options: Options
    kept: Credentials
    exits: ExitStack
    guard: Guard
    parts: list[Part] = field(default_factory=list)

    def add(self, part: Part) -> None:
        self.exits.callback(part.stop)
        self.parts.append(part)

    def store(self) -> str:
        """Start a Redis, or use the one that was named; return its address."""
        if self.options.store_url is not None:
            return self.options.store_url
        console.say("starting the store")
        started = store.start(self.checkout.run, self.guard)
        self.add(started.child)
        return started.url

    def engine(self, gate_redis: str) -> Served:
        """Start the model server, or use the one that was named, with a gate if one was asked."""
        given = gate.environment(self.kept.gate_secret, gate_redis)
        upstream = self.options.upstream
        if upstream is not None:
            return self._gated(upstream, given) if self.options.gate else upstream
        with console.progress() as progress:
            part, served = engine.start(
                self.checkout, self.options.profile, self.kept.engine_key, given, progress
            )
        self.add(part)
        return served

    def _gated(self, upstream: Served, given: Mapping[str, str]) -> Served:
        """Put a gate of our own in front of somebody's server."""
        console.say("starting the gate")
        child, url = gate.start(self.checkout, self.guard, upstream.url, given)
        self.add(child)
        return replace(upstream, url=url, gated=True)

    def edge(self, component: Path, values: Mapping[str, str]) -> None:
        """Start the edge's host and wait until it is ready."""
        host = self.options.host
        console.say(f"starting the edge on {host}")
        if host == "spin":
            argv = edge.spin_argv(self.checkout, component, self.options.serve)
        else:
            argv = edge.wasmtime_argv(component, self.options.serve, values)
        run = self.checkout.run
        env = edge.host_environment(host, values)
        child = process.start(
            "edge", argv, log=run / "edge.log", env=env, guard=self.guard, cwd=run
        )
        self.add(child)
        wait_ready(self.options.endpoint, child)

    def finish(self, served: Served, gate_redis: str) -> state.State:
        """Make the key that is printed, and say what runs."""
        way = admin.Admin(self.options.endpoint, self.kept.key_secret)
        try:
            key_id = _last_key_id(way.entries())
            claims, api_key = wiring.local_key(self.kept.key_secret, key_id)
            way.register(claims, label=KEY_LABEL)
        except NearfarError as problem:
            # The key works all the same: it verifies itself.
            _, api_key = wiring.local_key(self.kept.key_secret)
            console.say(f"the key is not in the list of keys: {problem.message}")
        return state.State(
            endpoint=self.options.endpoint,
            api_key=api_key,
            model=served.model,
            pid=os.getpid(),
            host=self.options.host,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            parts={part.name: part.pid for part in self.parts},
            gate_redis=gate_redis,
        )
