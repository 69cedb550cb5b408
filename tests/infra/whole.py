"""The whole program over the mocks, once for each set of settings that tests ask for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from infra import given
from infra.declared import Program, declare
from nearfar_infra.program import program

TOKEN = "canary-linode-token"
SNAPSHOT = f"registry.example/team/vllm-snapshot:v0.32.0@{given.DIGEST}"
REGISTRY = "registry.example/team/edge"

# One deployment for each kind of thing that can be chosen.
KINDS: Mapping[str, Mapping[str, str]] = {
    "smallest": {},
    "nothing optional": {"edgeTarget": "none", "monitoring": "false"},
    "domain": {
        "domain": "gpu.example.com",
        "dnsZone": "example.com",
        "dnsToken": "canary-dns-token",
        "allowedSources": '["198.51.100.0/24", "2001:db8::/32"]',
    },
    "many servers": {
        "replicas": "2",
        "gpuNodesMax": "3",
        "autoscaleMax": "3",
        "weights": "stream",
        "hfToken": "canary-hf-token",
        "embeddings": "true",
    },
    "edge beside the model": {"edgeTarget": "wasmtime", "edgeRegistry": REGISTRY},
    "edge under spinkube": {"edgeTarget": "spinkube", "edgeRegistry": REGISTRY},
    "snapshot": {"snapshot": "true", "snapshotImage": SNAPSHOT, "imagePrePull": "true"},
    "redis elsewhere": {"redisUrl": "rediss://gate:canary-redis@redis.example:6380/0"},
}


@cache
def _declared(changed: tuple[tuple[str, str], ...], preview: bool, mirror: str | None) -> Program:
    also = {"mirror": mirror} if mirror else {}
    settings, sources = given.settings(**dict(changed), **also), given.sources(mirror)
    return declare(lambda: program(settings, sources, TOKEN).exported, preview=preview)


def whole(
    changed: Mapping[str, str], *, preview: bool = False, mirror: str | None = None
) -> Program:
    """Declare everything with the smallest configuration and these changes."""
    return _declared(tuple(sorted(changed.items())), preview, mirror)


def kind(name: str) -> Program:
    """One of KINDS."""
    return whole(KINDS[name])


def pods(program: Program) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every object of ours that makes pods, with the pods' template."""
    found = []
    for made in program.manifests:
        template = (
            made.get("spec", {}).get("template") if isinstance(made.get("spec"), dict) else None
        )
        if isinstance(template, dict) and "spec" in template and made["kind"] in _MAKES_PODS:
            found.append((made, template))
    return found


_MAKES_PODS = ("Deployment", "DaemonSet", "StatefulSet", "Job")
