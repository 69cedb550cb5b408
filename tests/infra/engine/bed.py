"""The whole test bed: started once, used by one pass after another."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fakes import spin
from fakes.spin import Spin
from nearfar import build
from nearfar.checkout import here
from nearfar.guard import Guard
from stack.edges import Edges
from stack.stores import RedisServer

from . import binaries, canary
from .binaries import Binaries
from .cloud import Cloud
from .controllers import Controllers
from .functions import Functions
from .linode.account import Account
from .linode.nodes import Nodes
from .plane import Plane
from .say import say

ROOT = Path(__file__).parents[3]
_PYTHONPATH = ("edge-frontend", "gpu-backend", "infra", "operator-cli", "tests")


@dataclass(slots=True)
class Bed:
    """Everything that a deployment meets. `home` keeps logs, state and recorded calls."""

    home: Path
    binaries: Binaries = field(init=False)
    plane: Plane = field(init=False)
    account: Account = field(init=False)
    functions: Functions = field(init=False)
    cloud: Cloud = field(init=False)
    spin: Spin = field(init=False)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        with self._open as opened:
            self._start(opened)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *unused: object) -> None:
        self._open.close()

    @property
    def bin(self) -> Path:
        """The plugins and commands that come first on PATH."""
        return self.home / "bin"

    def environment(self) -> dict[str, str]:
        """What a Pulumi engine needs that is to find only what the tests started."""
        path = os.pathsep.join((str(self.bin), str(self.binaries.bin), os.environ["PATH"]))
        return {
            "PATH": path,
            "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in _PYTHONPATH),
            "PULUMI_HOME": str(self.home / "pulumi"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
            "PULUMI_PYTHON_CMD": sys.executable,
            "NEARFAR_INFRA_PYTHON": sys.executable,
            "NEARFAR_ENGINE_HOME": str(self.home),
            "HELM_CACHE_HOME": str(self.home / "helm" / "cache"),
            "HELM_CONFIG_HOME": str(self.home / "helm" / "config"),
            "HELM_DATA_HOME": str(self.home / "helm" / "data"),
        }

    def nodes(self) -> Nodes:
        """What makes the cluster's nodes those of the account."""
        return Nodes(self.plane.api())

    def _start(self, opened: ExitStack) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.binaries = binaries.ensure()
        guard = Guard()
        opened.callback(guard.close)
        self.account = Account(self.home / "account.json")
        self._start_edges(opened, guard)
        self.plane = Plane(self.binaries, self.home / "plane", guard)
        opened.callback(self.plane.stop)
        self.plane.start()
        server = {"url": self.plane.url, "token": self.plane.token, "ca": self.plane.ca}
        (self.home / "server.json").write_text(json.dumps(server))
        controllers = Controllers(self.plane, self.account)
        controllers.start()
        opened.callback(controllers.stop)
        self._link_programs()
        say(f"control plane, account and chart repository are up ({self.home})")

    def _start_edges(self, opened: ExitStack, guard: Guard) -> None:
        component = build.component(here(), "wasmtime", say)
        edges = Edges(component, self.home, guard)
        opened.callback(edges.stop)
        store = RedisServer(self.home, guard)
        store.start()
        opened.callback(store.kill)
        self.functions = Functions(edges, store)
        self.cloud = opened.enter_context(
            Cloud(self.functions.told, self.account, canary.LINODE_TOKEN)
        )
        opened.callback(self.functions.stop)

    def _link_programs(self) -> None:
        """Put the stand-ins where the engine and the program look for them."""
        self.bin.mkdir(exist_ok=True)
        paths = os.pathsep.join(str(ROOT / each) for each in _PYTHONPATH)
        linode = [sys.executable, "-P", "-m", "infra.engine.linode"]
        self._script("pulumi-resource-linode", ["env", f"PYTHONPATH={paths}", *linode])
        self.spin = spin.install(self.bin)
        self.spin.serve_by(self.cloud.url)
        own = ROOT / "infra" / "plugin" / "pulumi-resource-nearfar"
        self._script(own.name, [str(own)])

    def _script(self, name: str, argv: list[str]) -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
        path.chmod(0o755)
