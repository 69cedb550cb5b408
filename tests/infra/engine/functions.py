"""A fake: what runs the apps that the stand-in `spin` deploys, in Akamai Functions' place.

An app is the built edge component in the real wasmtime on this machine, with the variables of the
deploy as its settings. There is no GPU here: whatever its routes name, it is answered by the fake
upstream of the tests, which wants the key that the routes' upstream has. In the place of the host's
key-value store there is a Redis.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from fakes.upstream import UpstreamThread
from stack.edges import Edge, Edges
from stack.stores import RedisServer

Told = dict[str, Any]


@dataclass(slots=True)
class App:
    """One deployed app: its variables, the process that serves it, the upstream behind it."""

    variables: dict[str, str] = field(repr=False)
    edge: Edge
    upstream: UpstreamThread


@dataclass(slots=True)
class Functions:
    """Apps by name; `deploys` names every deploy in order."""

    edges: Edges
    store: RedisServer
    apps: dict[str, App] = field(default_factory=dict)
    deploys: list[str] = field(default_factory=list)

    def told(self, what: Told) -> Told:
        """Run an app, or end it; the answer is its address."""
        name = what.get("deploy") or what["delete"]
        if name in self.apps:
            self._end(self.apps.pop(name))
        if "deploy" not in what:
            return {}
        self.deploys.append(name)
        variables = what["variables"][0]
        upstream, settings = _behind(variables)
        settings["NEARFAR_STORE"] = self.store.url
        self.apps[name] = App(variables, self.edges.start(settings), upstream)
        return {"url": self.apps[name].edge.url}

    def stop(self) -> None:
        while self.apps:
            self._end(self.apps.popitem()[1])

    def _end(self, app: App) -> None:
        app.edge.child.stop()
        self.edges.started.remove(app.edge)
        app.upstream.__exit__(None, None, None)


def _behind(variables: dict[str, str]) -> tuple[UpstreamThread, dict[str, str]]:
    """Start a fake upstream; the variables as settings of wasmtime, all routes led to it."""
    routes = json.loads(variables["routes"])
    keys = set(json.loads(variables.get("upstream_keys") or "{}").values())
    models = sorted({entry["model"] for entry in routes["models"].values()})
    upstream = UpstreamThread(models=models, api_key=keys.pop() if len(keys) == 1 else None)
    upstream.__enter__()
    for each in routes["upstreams"].values():
        each["url"] = upstream.url
    led = variables | {"routes": json.dumps(routes)}
    return upstream, {f"NEARFAR_{name.upper()}": value for name, value in led.items() if value}
