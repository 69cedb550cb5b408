"""One edge with a store and a fake upstream, for programs and tests that share them with nobody."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar import build
from nearfar.checkout import here
from nearfar.guard import Guard
from stack import edges
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edge, Edges
from stack.stores import RedisServer

# One short choice, whatever is asked: `n` may be any number.
SHORT = Script(pieces=("yes", " and", " no"), n=1)


class Alone:
    """Starts them on entering and ends them on leaving. `key` opens every route."""

    edge: Edge
    upstream: UpstreamThread

    def __init__(self, run: Path, script: Script = SHORT) -> None:
        self._run, self._script = run, script
        self._exits = ExitStack()
        self.key = Caller().key

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            guard = Guard()
            exits.callback(guard.close)
            component = build.component(here(), "wasmtime", lambda t: print(t, file=sys.stderr))
            store = RedisServer(self._run, guard)
            store.start()
            exits.callback(store.kill)
            upstream = UpstreamThread(self._script, api_key=UPSTREAM_KEY, keep=100)
            self.upstream = exits.enter_context(upstream)
            started = Edges(component, self._run, guard)
            exits.callback(started.stop)
            self.edge = started.start(edges.settings({"mock": self.upstream.url}, store.url))
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def faults(self) -> list[str]:
        """What the edge logged of its own faults, and its host of instances that were lost."""
        lines = self.edge.log_text().splitlines()
        return [line for line in lines if '"fault"' in line or "wasm trap" in line]
