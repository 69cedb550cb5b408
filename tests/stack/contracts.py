"""Builds the component that runs the contracts, and serves it on each host of this machine."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from nearfar import build, edge, process, program
from nearfar.checkout import Checkout
from nearfar.guard import Guard
from nearfar.ports import free_port

TESTS = Path(__file__).parents[1]
READY_TIMEOUT_S = 20
MANIFEST = """\
spin_manifest_version = 2
[application]
name = "nearfar-contract"
version = "0.1.0"
[[trigger.http]]
route = "/..."
component = "contract"
[component.contract]
source = {source}
allowed_outbound_hosts = ["*://127.0.0.1:*"]
key_value_stores = ["default"]
"""


def hosts() -> tuple[edge.Host, ...]:
    """The hosts that are on this machine; wasmtime comes with the project."""
    return ("wasmtime", "spin") if shutil.which("spin") else ("wasmtime",)


def component(checkout: Checkout, host: edge.Host) -> Path:
    """The component for a host, built again only where a source of it changed."""
    folder = checkout.build / "contract"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(build.source_hash(checkout).encode())
    for source in (*sorted((TESTS / "contract").glob("*.py")), Path(__file__)):
        digest.update(source.read_bytes())
    wasm, stamp = folder / f"{host}.wasm", folder / f"{host}.source"
    compiled = wasm.with_suffix(".cwasm") if host == "wasmtime" else wasm
    if compiled.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return compiled
    print(f"building the contract component for {host} (about 30 s)", file=sys.stderr)
    flags = ["-d", str(checkout.edge / "wit"), "componentize", "-i", build.LOCAL_WORLD]
    _run(
        *(sys.executable, "-P", "-c", "from componentize_py import script; script()"),
        *("-w", build.WORLD, *(flags if host == "wasmtime" else ["componentize"])),
        *("-p", TESTS, "-p", checkout.edge, "-p", sysconfig.get_path("purelib")),
        *("contract.app", "-o", wasm),
    )
    if host == "wasmtime":
        _run(program.find("wasmtime"), "compile", *edge.COMPILE_FLAGS, wasm, "-o", compiled)
    stamp.write_text(digest.hexdigest())
    return compiled


@contextmanager
def serving(built: Path, host: edge.Host, run: Path, guard: Guard) -> Iterator[str]:
    """Serve it; the address."""
    options = edge.ServeOptions(free_port())
    if host == "wasmtime":
        argv = edge.wasmtime_argv(built, options, {})
    else:
        manifest = run / "contract.toml"
        manifest.write_text(MANIFEST.format(source=json.dumps(str(built))))
        listen = f"127.0.0.1:{options.port}"
        argv = ["spin", "up", "--from", str(manifest), "--listen", listen]
        argv += ["--state-dir", str(run / "spin")]
    child = process.start(
        f"contract-{host}",
        argv,
        log=run / f"contract-{host}.log",
        env=edge.host_environment(host, {}),
        guard=guard,
        cwd=run,
    )
    url = f"http://127.0.0.1:{options.port}"
    try:
        process.wait_until(lambda: _answers(url), child, READY_TIMEOUT_S, "did not answer")
        yield url
    finally:
        child.stop()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/clock", trust_env=False, timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


def _run(*argv: str | Path) -> None:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
