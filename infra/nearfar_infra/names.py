"""Every name that two parts of the deployment have to agree on."""

from __future__ import annotations

from typing import Literal

PROJECT = "nearfar"

Part = Literal[
    "vllm", "gate", "router", "embeddings", "fetch", "redis", "collector", "traefik", "edge"
]

# Namespaces. Every one of ours has default-deny policies; kube-system stays the provider's.
SERVING = "nearfar-serving"
STORE = "nearfar-store"
INGRESS = "nearfar-ingress"
MONITORING = "nearfar-monitoring"
EDGE = "nearfar-edge"
GPU_OPERATOR = "nearfar-gpu-operator"
KEDA = "nearfar-keda"
SPIN_OPERATOR = "nearfar-spin-operator"
CERT_MANAGER = "nearfar-cert-manager"
KUBE_SYSTEM = "kube-system"

# The pool that a node belongs to: set by LKE on every node of the pool, new ones included.
POOL_LABEL = "nearfar.dev/pool"
CPU_POOL = "cpu"
GPU_POOL = "gpu"
# The tag by which the cluster resource leaves a pool alone that is a resource of its own.
EXTERNAL_POOL_TAG = "nearfar-external-pool"

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

# Volumes are deleted with their claims; "-retain" in its place would leave them on the bill.
STORAGE_CLASS = "linode-block-storage"


def labels(part: str) -> dict[str, str]:
    """Labels of everything that belongs to one part; policies and Services select by them."""
    return {
        "app.kubernetes.io/name": part,
        "app.kubernetes.io/part-of": PROJECT,
        "app.kubernetes.io/managed-by": "pulumi",
    }


def selector(part: str) -> dict[str, str]:
    """The labels that select a part's pods and nothing else."""
    return {"app.kubernetes.io/name": part, "app.kubernetes.io/part-of": PROJECT}


def gpu_tolerations() -> list[dict[str, str]]:
    """What a pod needs to be let onto the GPU pool."""
    return [{"key": GPU_TAINT["key"], "operator": "Exists", "effect": GPU_TAINT["effect"]}]


def on_pool(pool: str) -> dict[str, str]:
    """The node selector of one pool."""
    return {POOL_LABEL: pool}
