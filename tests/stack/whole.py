"""The whole stack of both halves: edges with a near store, a gate with its Redis, an upstream.

For tests, and for programs that measure: everything is ended on leaving.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from nearfar import build
from nearfar.checkout import here
from nearfar.guard import Guard
from stack import edges, gates
from stack.edges import Edge, Edges
from stack.gates import GATE_SECRET, Gate, GateRedis
from stack.stores import RedisServer


@dataclass(slots=True)
class Whole:
    """Starts what it is asked for, in front of one upstream.

    `admission`: with a gate between; without it the edges ask the upstream themselves.
    """

    run: Path
    upstream_url: str
    admission: bool = True
    gate_settings: Mapping[str, str | int] = field(default_factory=dict)
    edge_settings: Mapping[str, str | int] = field(default_factory=dict)
    model: Mapping[str, str | int] = field(default_factory=dict)  # more of the route's entry
    near: RedisServer = field(init=False)
    redis: GateRedis = field(init=False)
    gate: Gate = field(init=False)
    _edges: Edges = field(init=False)
    _guard: Guard = field(init=False)
    _exits: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            self._guard = Guard()
            exits.callback(self._guard.close)
            component = build.component(here(), "wasmtime", lambda t: print(t, file=sys.stderr))
            self.near = RedisServer(self.run, self._guard)
            self.near.start()
            exits.callback(self.near.kill)
            if self.admission:
                self.redis = GateRedis(self.run, self._guard)
                self.redis.start()
                exits.callback(self.redis.kill)
                self.gate = gates.start(
                    self.upstream_url, self.redis.url, self.run, self._guard, self.gate_settings
                )
                exits.callback(self.gate.child.stop)
            self._edges = Edges(component, self.run, self._guard)
            exits.callback(self._edges.stop)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def end(self, edge: Edge) -> None:
        """End one edge before the others."""
        edge.child.stop()
        self._edges.started.remove(edge)

    def edge(self, *, reuse_count: int | None = None, **more: str | int) -> Edge:
        """One more edge of this stack, with settings of its own."""
        wanted: dict[str, str | int] = {**self.edge_settings, **more}
        if self.admission:
            wanted = {"gate_secret": GATE_SECRET, **wanted}
        url = self.gate.url if self.admission else self.upstream_url
        models = {"mock": {"url": url, **self.model}}
        return self._edges.start(
            edges.settings(models, self.near.url, **wanted), reuse_count=reuse_count
        )
