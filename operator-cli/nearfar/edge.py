"""How the edge component is served: by the wasmtime command line, or by Spin."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from nearfar import program
from nearfar.checkout import Checkout

Host = Literal["wasmtime", "spin"]
HOSTS: tuple[Host, ...] = ("wasmtime", "spin")

_MIB = 1 << 20
# Memory of an instance is taken from a pool and partly kept between requests: measured to halve
# the p99 under load. A precompiled component runs only with the flags that it was compiled with.
_POOLING = {
    "pooling-allocator": "y",
    "pooling-table-elements": "50000",
    "pooling-max-core-instance-size": str(10 * _MIB),
    "pooling-max-component-instance-size": str(10 * _MIB),
    "pooling-max-memory-size": str(256 * _MIB),
    "pooling-memory-keep-resident": str(16 * _MIB),
    "pooling-async-stack-keep-resident": str(64 << 10),
    # Asks the kernel which pages an instance wrote, where it can tell (Linux 6.7): the pool then
    # keeps less than half the memory after a heavy load, at the same speed (docs/performance.md).
    "pooling-pagemap-scan": "auto",
}
COMPILE_FLAGS = (
    "-W",
    "component-model-async",
    "-O",
    ",".join(f"{name}={value}" for name, value in _POOLING.items()),
)
# The line of spin.toml that names the component.
_SPIN_SOURCE = 'source = "edge.wasm"'
_WASI_FLAGS = ("-S", "p3,http,cli,inherit-network,tcp,allow-ip-name-lookup")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the edge listens, and how long its instances live (None: the host's own default)."""

    port: int
    # Fewer, fuller and longer-lived instances than the host's 128 and 16: a new one costs several
    # requests' time, and each holds some 7 MB (docs/performance.md).
    max_instance_reuse_count: int | None = 4096
    max_instance_concurrent_reuse_count: int | None = 32
    # The host's own default of one second makes every request after a pause a cold one.
    idle_instance_timeout_s: int = 30
    address: str = "127.0.0.1"


def wasmtime_argv(component: Path, options: ServeOptions, settings: Mapping[str, str]) -> list[str]:
    """Return the command line that serves a precompiled component.

    Settings are named without their values, so that wasmtime takes these from its own
    environment: a command line is readable by every user of the machine.
    """
    return [str(program.find("wasmtime")), *serve_words(str(component), options, settings)]


def serve_words(component: str, options: ServeOptions, settings: Iterable[str]) -> tuple[str, ...]:
    """The words after the program's name; `settings` are the names of variables."""
    limits = {
        "--max-instance-reuse-count": options.max_instance_reuse_count,
        "--max-instance-concurrent-reuse-count": options.max_instance_concurrent_reuse_count,
    }
    words = ["serve", *COMPILE_FLAGS, *_WASI_FLAGS, "--allow-precompiled", "--no-logging-prefix"]
    words += ["--addr", f"{options.address}:{options.port}"]
    words += ["--idle-instance-timeout", f"{options.idle_instance_timeout_s}s"]
    for flag, limit in limits.items():
        words += [flag, str(limit)] if limit is not None else []
    for name in sorted(settings):
        words += ["--env", name]
    return (*words, component)


def spin_argv(checkout: Checkout, component: Path, options: ServeOptions) -> list[str]:
    """Return the command line that serves edge-frontend/spin.toml with this component."""
    return [
        str(program.find("spin")),
        "up",
        "--from",
        str(_manifest(checkout, component)),
        "--listen",
        f"127.0.0.1:{options.port}",
        "--state-dir",
        str(checkout.run / "spin"),
    ]


def _manifest(checkout: Checkout, component: Path) -> Path:
    """Copy the manifest into the run folder, with the component where it was built."""
    text = (checkout.edge / "spin.toml").read_text(encoding="utf-8")
    path = checkout.run / "spin.toml"
    path.write_text(text.replace(_SPIN_SOURCE, f"source = {json.dumps(str(component))}"), "utf-8")
    return path


def host_environment(host: Host, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the host's process, which carries the component's settings."""
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return passed | (spin_variables(settings) if host == "spin" else dict(settings))


def spin_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as Spin's application variables, and the hosts that they allow.

    Spin lets a component reach named hosts alone; a store's password is no part of its host.
    """
    (upstream,) = json.loads(settings["NEARFAR_ROUTES"])["upstreams"].values()
    found = {name.removeprefix("NEARFAR_"): value for name, value in settings.items()}
    found["UPSTREAM_HOST"] = _host(upstream["url"])
    if settings.get("NEARFAR_STORE", "").startswith("redis://"):
        found["STORE_HOST"] = _host(settings["NEARFAR_STORE"])
    return {f"SPIN_VARIABLE_{name}": value for name, value in found.items()}


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
