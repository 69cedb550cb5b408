"""The gate's Python files as a ConfigMap that a pod mounts as a package: no image of our own."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from importlib.resources.abc import Traversable

import pulumi

from nearfar_infra import names
from nearfar_infra.manifests import Manifest

# Where pods see it; it stands on their PYTHONPATH.
MOUNT = "/opt/nearfar"
# A ConfigMap holds at most 1 MiB, and its keys no slashes.
_SLASH = "__"
# What the gate imports of gpu_backend besides itself, and what asks a starting server.
_BESIDE = ("__init__.py", "errors.py", "grant.py", "probe.py")
# What stands beside the package: the start-up probe, and the way to a snapshot.
_PROGRAMS = ("ask_once.py", "serve_snapshot.py")


def files() -> dict[str, str]:
    """Path below MOUNT → text of every file that the gate needs."""
    root = resources.files("gpu_backend")
    found = {name: root.joinpath(name) for name in _BESIDE}
    for file in root.joinpath("gate").iterdir():
        if file.name.endswith((".py", ".lua")):
            found[f"gate/{file.name}"] = file
    pods = resources.files("nearfar_infra.in_pod")
    texts = {f"gpu_backend/{name}": _text(file) for name, file in found.items()}
    texts |= {name: _text(pods.joinpath(name)) for name in _PROGRAMS}
    return dict(sorted(texts.items()))


def _text(file: Traversable) -> str:
    return file.read_text("utf-8")


def name() -> str:
    """The ConfigMap's name: it carries the files' hash, so that a change restarts its pods."""
    return f"gate-{digest(files())}"


def config_map(namespace: pulumi.Input[str]) -> Manifest:
    """The ConfigMap that holds every file."""
    data = {path.replace("/", _SLASH): text for path, text in files().items()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name(),
            "namespace": namespace,
            "labels": names.labels("gate"),
        },
        "immutable": True,
        "data": data,
    }


def volume(config_map_name: str) -> Manifest:
    """The volume that puts every file back where it belongs."""
    items = [{"key": path.replace("/", _SLASH), "path": path} for path in files()]
    return {"name": "gate", "configMap": {"name": config_map_name, "items": items}}


def digest(data: dict[str, str]) -> str:
    """10 hex digits over names and texts."""
    canonical = json.dumps(data, sort_keys=True).encode()
    return hashlib.sha256(canonical).hexdigest()[:10]
