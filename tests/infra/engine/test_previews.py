"""Other configurations, as far as a preview goes: the engine takes every resource of them."""

from __future__ import annotations

import pytest

from . import plan
from .bed import Bed

pytestmark = [pytest.mark.timeout(3600), pytest.mark.filterwarnings("default")]

OTHERS = {
    "no-domain": {"domain": "", "dnsZone": "", "allowedSources": ""},
    "no-monitoring": {"monitoring": "false"},
    "three-servers": {"replicas": "3", "gpuNodesMax": "3", "weights": "stream"},
    "autoscaled": {
        "autoscaleMax": "2",
        "gpuNodesMax": "2",
        "weights": "stream",
        "scaleToZero": "true",
    },
    "embeddings": {"embeddings": "true"},
    "wasmtime": {"edgeTarget": "wasmtime", "edgeRegistry": "registry.example/nearfar/edge"},
    "spinkube": {"edgeTarget": "spinkube", "edgeRegistry": "registry.example/nearfar/edge"},
    "no-edge": {"edgeTarget": "none"},
    "own-redis": {"redisUrl": "rediss://gate:word@redis.example:6380/0"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_preview_takes_every_resource_of_another_configuration(name: str, bed: Bed) -> None:
    changes = dict(OTHERS[name])
    deployment = plan.deployment(bed, name, **changes)
    if changes.get("domain") == "":
        deployment.config = {k: v for k, v in deployment.config.items() if "dnsToken" not in k}
    outcome = deployment.preview()
    assert {"create"} == set(outcome.changes)
    assert outcome.changes["create"] > 90
