"""What is measured beside what; the bench starts every one of them itself."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import builds
from .near import Near
from .processes import NotAvailable, Processes, free_port, tool
from .target import Target

# The fake upstream's paces, chosen by a marker in the user's text so that one upstream serves all.
PACED = {"first_content_ms": 50.0, "gap_ms": 10.0, "chunks": 16}
BURST = {"first_content_ms": 5.0, "gap_ms": 0.0, "chunks": 16}
MARKED = {"PACED": PACED, "BURST": BURST}
CHUNKS = 16


@dataclass(frozen=True, slots=True)
class Setup:
    """Where to keep what is built, and whether vllm-router may be installed."""

    folder: Path
    install_router: bool
    install_litellm: bool = False


class Targets:
    """All targets by name; those that could not be had are named with the reason."""

    def __init__(self, setup: Setup, processes: Processes) -> None:
        self._setup, self._processes = setup, processes
        self.found: dict[str, Target] = {}
        self.missing: dict[str, str] = {}
        self._upstream = f"127.0.0.1:{free_port()}"
        self._near: Near | None = None

    def start(self, names: set[str]) -> None:
        """Starts what the chosen parts need; the upstream first, since others ask for it."""
        self._start("direct", self._direct)
        known: dict[str, Callable[[], Target]] = {
            "hello": lambda: self._component("hello"),
            "hello-fresh": lambda: self._component("hello", fresh=True),
            "passthrough": lambda: self._component("passthrough"),
            "handon": lambda: self._component("handon"),
            "nginx": self._nginx,
            "vllm-router": self._router,
            "litellm": self._litellm,
            "edge": lambda: self._edge("edge"),
            "edge-fresh": lambda: self._edge("edge-fresh", fresh=True),
            "edge-gated": lambda: self._edge("edge-gated", gated=True),
        }
        for name in sorted(names & known.keys()):
            self._start(name, known[name])

    def stop(self) -> None:
        """Ends the edges and their store; the other servers are those of `Processes`."""
        if self._near is not None:
            self._near.stop()

    def of(self, *names: str) -> list[Target]:
        """Those of the named targets that are there, in that order."""
        return [self.found[name] for name in names if name in self.found]

    def _start(self, name: str, make: Callable[[], Target]) -> None:
        try:
            self.found[name] = make()
        except NotAvailable as reason:
            self.missing[name] = str(reason)
            print(f"without {name}: {reason}", file=sys.stderr)

    def _direct(self) -> Target:
        url = f"http://{self._upstream}"
        module = f"{__package__.rpartition('.')[0]}.fakes.upstream".lstrip(".")
        command = [sys.executable, "-m", module, "--port", self._upstream.rpartition(":")[2]]
        command += ["--marked", json.dumps(MARKED)]
        pid = self._processes.start("upstream", command, f"{url}/health")
        return Target("direct", url, pid=pid)

    def _edge(self, name: str, *, fresh: bool = False, gated: bool = False) -> Target:
        if self._near is None:
            self._near = Near(self._setup.folder / "run", f"http://{self._upstream}")
        return self._near.start(name, fresh=fresh, gated=gated)

    def _component(self, name: str, *, fresh: bool = False) -> Target:
        label = f"{name}-fresh" if fresh else name
        compiled = builds.component(name, self._setup.folder)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        pid = self._processes.start(
            label,
            builds.serve_arguments(compiled, port, fresh=fresh),
            url,
            environment={"UPSTREAM": self._upstream},
        )
        return Target(label, url, pid=pid)

    def _router(self) -> Target:
        program = builds.router(self._setup.folder, install=self._setup.install_router)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        arguments: list[str | Path] = [program, "--worker-urls", f"http://{self._upstream}"]
        arguments += ["--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin"]
        arguments += ["--prometheus-port", str(free_port()), "--log-level", "error"]
        pid = self._processes.start("vllm-router", arguments, f"{url}/health")
        return Target("vllm-router", url, pid=pid, start_s=self._processes.start_s[pid])

    def _litellm(self) -> Target:
        program = builds.litellm(self._setup.folder, install=self._setup.install_litellm)
        path = builds.litellm_configuration(self._setup.folder, f"http://{self._upstream}/v1")
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        pid = self._processes.start(
            "litellm",
            [program, "--config", path, "--host", "127.0.0.1", "--port", str(port)],
            f"{url}/health/liveliness",
            environment=builds.LITELLM_ENVIRONMENT,
            patience_s=180.0,
        )
        start_s = self._processes.start_s[pid]
        return Target("litellm", url, key=builds.LITELLM_KEY, pid=pid, start_s=start_s)

    def _nginx(self) -> Target:
        program = tool("nginx")
        port = free_port()
        path = builds.nginx_configuration(self._setup.folder, port, self._upstream)
        url = f"http://127.0.0.1:{port}"
        pid = self._processes.start(
            "nginx", [program, "-p", path.parent, "-e", "stderr", "-c", path], f"{url}/health"
        )
        return Target("nginx", url, pid=pid)
