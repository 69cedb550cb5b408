"""Starts the local stack part by part, watches it, and leaves nothing of it behind.

    build the component → store → engine (or somebody's upstream) → edge → ready

Each part is ready before the next one starts. One part that ends ends the stack.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from edge_frontend import keys, settings
from nearfar import admin, build, console, credentials, edge, engine, process, state, store
from nearfar.checkout import Checkout
from nearfar.credentials import Credentials
from nearfar.engine import Served
from nearfar.errors import BadInput, Missing, PartDied
from nearfar.guard import Guard
from nearfar.logs import Tail, last_lines
from nearfar.ports import check_port
from nearfar.process import Part

READY_TIMEOUT_S = 60
LOCAL_KEY_DAYS = 30
_WATCH_S = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """What `nearfar up` was asked for. Without `upstream` a vLLM is started as `profile` says."""

    serve: edge.ServeOptions
    host: edge.Host = "wasmtime"
    upstream: Served | None = None
    profile: str = "cpu-small"
    store_url: str | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.serve.port}"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that is ready."""

    state: state.State
    parts: tuple[Part, ...]

    def watch(self, *, show_logs: bool = True) -> None:
        """Pass on the parts' logs until one of them ends.

        Raises:
            PartDied: always, unless an interrupt comes first.
        """
        tails = {part.name: Tail(part.log) for part in self.parts}
        while True:
            for name, tail in tails.items():
                lines = list(tail.lines())
                if show_logs:
                    console.log_lines(name, lines)
            for part in self.parts:
                part.check()
            time.sleep(_WATCH_S)


@contextmanager
def running(checkout: Checkout, options: Options) -> Iterator[Stack]:
    """Run a stack for as long as the context lasts.

    Raises:
        Missing: a port is taken, a program is absent, a part died or does not get ready.
    """
    with process.stop_on_signals(), state.held(checkout), ExitStack() as exits:
        check_port(options.serve.port)
        component = build.component(checkout, options.host, console.say)
        kept = credentials.ensure(checkout.run / credentials.FILE)
        starting = _Starting(checkout, options, kept, exits, Guard())
        exits.callback(starting.guard.close)
        store_url = starting.store()
        served = starting.engine()
        starting.edge(component, edge_settings(kept, served, store_url))
        ready = starting.finish(served)
        state.write(checkout, ready)
        yield Stack(ready, tuple(starting.parts))


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
        given = self.options.store_url
        if given is None:
            console.say("starting the store")
            started = store.start(self.checkout.run, self.guard)
            self.add(started.child)
            return started.url
        if not store.answers(given):
            raise Missing("The store given with --redis does not answer.", "check its address.")
        return given

    def engine(self) -> Served:
        """Start the model server, or use the one that was named."""
        if self.options.upstream is not None:
            return self.options.upstream
        with console.progress() as progress:
            part, served = engine.start(
                self.checkout, self.options.profile, self.kept.engine_key, progress
            )
        self.add(part)
        return served

    def edge(self, component: Path, values: Mapping[str, str]) -> None:
        """Start the edge's host and wait until it is ready."""
        host = self.options.host
        console.say(f"starting the edge on {host}")
        if host == "spin":
            argv = edge.spin_argv(self.checkout, self.options.serve)
        else:
            argv = edge.wasmtime_argv(component, self.options.serve, values)
        run = self.checkout.run
        env = edge.host_environment(host, values)
        child = process.start(
            "edge", argv, log=run / "edge.log", env=env, guard=self.guard, cwd=run
        )
        self.add(child)
        wait_ready(self.options.endpoint, child)

    def finish(self, served: Served) -> state.State:
        """Make the key that is printed, and say what runs."""
        claims, api_key = local_key(self.kept.key_secret)
        admin.Admin(self.options.endpoint, self.kept.key_secret).register(
            claims, label="nearfar up"
        )
        return state.State(
            endpoint=self.options.endpoint,
            api_key=api_key,
            model=served.model,
            pid=os.getpid(),
            host=self.options.host,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            parts={part.name: part.pid for part in self.parts},
        )


def edge_settings(kept: Credentials, served: Served, store_url: str) -> dict[str, str]:
    """Return the edge's settings; public ones that the caller's environment sets are passed on."""
    public = set(settings.names()) - settings.SECRET_NAMES - {"routes"}
    names = {settings.variable(name) for name in public}
    passed = {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}
    ours = {
        "NEARFAR_ROUTES": json.dumps(routes(served)),
        "NEARFAR_KEY_SECRET": kept.key_secret,
        "NEARFAR_KEY_SECRET_PREVIOUS": kept.key_secret_previous,
        "NEARFAR_UPSTREAM_KEYS": json.dumps({"gpu": served.key} if served.key else {}),
        "NEARFAR_STORE": store_url,
    }
    return passed | {name: value for name, value in ours.items() if value}


def routes(served: Served) -> Mapping[str, Any]:
    """Return the table with one upstream and one model."""
    model: dict[str, Any] = {
        "upstream": "gpu",
        "model": served.model,
        "revision": served.revision,
        "serving_hash": served.serving_hash,
    }
    if served.context_tokens:
        model["context_tokens"] = served.context_tokens
    return {
        "version": "local-1",
        "upstreams": {"gpu": {"url": served.url}},
        "models": {served.model: model},
    }


def wait_ready(endpoint: str, part: Part, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Wait until the edge says that it and all it depends on are ready.

    Raises:
        PartDied: with what the edge says is not ready.
    """
    deadline = time.monotonic() + timeout_s
    with httpx.Client(trust_env=False, timeout=5) as session:
        while True:
            part.check()
            said = _readiness(session, endpoint)
            if said is None:
                return
            if time.monotonic() > deadline:
                raise PartDied(
                    f"The edge is not ready after {timeout_s:g} s: {said}",
                    "make ready what it names, and run this again.",
                    last_lines(part.log),
                )
            time.sleep(0.1)


def _readiness(session: httpx.Client, endpoint: str) -> str | None:
    """None when the edge is ready, else what it said, or that it said nothing."""
    try:
        response = session.get(f"{endpoint}/readyz")
    except httpx.HTTPError as error:
        return f"it does not answer ({type(error).__name__})"
    return None if response.status_code == 200 else response.text.strip()[:300]


def local_key(secret: str) -> tuple[keys.Claims, str]:
    """Mint the key that `nearfar up` prints: all models, chat and trace."""
    claims = keys.Claims(
        key_id=secrets.token_hex(6),
        tenant="local",
        expires_at=int(time.time()) + LOCAL_KEY_DAYS * 86_400,
        permissions=("chat", "trace"),
    )
    return claims, keys.mint(secret, claims)


def upstream(url: str, key: str | None, model: str | None, context_tokens: int) -> Served:
    """Return somebody's OpenAI-compatible server as what the edge forwards to.

    Raises:
        BadInput: when the address is none, or no model is named.
    """
    if not url.startswith(("http://", "https://")):
        raise BadInput(
            f"--upstream {url!r} is not a web address.", "give one like http://host:8000"
        )
    if not model:
        raise BadInput("--upstream needs --model.", "name a model that the server knows.")
    return Served(url, model, key or "", "unknown", "unknown", context_tokens)
