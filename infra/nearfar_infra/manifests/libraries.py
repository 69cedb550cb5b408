"""Python libraries that pods install by hash, taken out of the lock files that exist already."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from nearfar_infra.errors import InfraError

# What the gate imports that vLLM's image lacks; the rest of its needs are vLLM's own too.
GATE = ("redis",)
# In an image with nothing but Python: the gate as a process of its own, and its server.
GATE_ALONE = ("click", "h11", "httptools", "redis", "uvicorn", "uvloop")

_PIN = re.compile(r"([A-Za-z0-9._-]+)==")


def gate_lock() -> Path:
    """The lock of the environment that vLLM and its gate share."""
    return Path(str(resources.files("gpu_backend"))).parent / "requirements.lock"


def router_lock() -> Path:
    """The lock of vllm-router and what it imports."""
    return Path(__file__).parent.parent / "router.lock"


def some(lock: Path, names: Iterable[str]) -> str:
    """Return those packages of a lock, each with all of its hashes.

    Raises:
        InfraError: one of them is not in it.
    """
    entries = _entries(lock.read_text("utf-8"))
    missing = [name for name in names if name not in entries]
    if missing:
        raise InfraError(
            f"{lock.name} does not hold {', '.join(missing)}.", "make it again with `just lock`."
        )
    return "".join(entries[name] for name in sorted(names))


def version_of(text: str) -> str:
    """10 hex digits that name one set of libraries."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _entries(text: str) -> dict[str, str]:
    """Name → its lines: the pin, and the hashes below it."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        pin = _PIN.match(line)
        if pin:
            name = pin[1].lower()
        if name and (pin or line.lstrip().startswith("--hash")):
            found[name] = found.get(name, "") + line + "\n"
    return found
