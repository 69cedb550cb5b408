"""The nodes of the account's pools, as kwok nodes of the tests' API server."""

from __future__ import annotations

import time
from typing import Any

from nearfar_infra.plans import PLANS

from ..api import Api, Object
from .account import State

_READY_TIMEOUT_S = 60
# Of a node's memory and processors LKE and the kubelet keep a part.
_ALLOCATABLE = 0.9


class Nodes:
    """Makes the API server's nodes those that the account's pools say."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def furnish(self, storage_classes: dict[str, str]) -> None:
        """Put into a new cluster what LKE puts there."""
        for name, policy in storage_classes.items():
            self._api.create("storageclasses", _storage_class(name, policy))
        self._api.create("deployments", _dns(), "kube-system")
        self._api.create("services", _dns_service(), "kube-system")

    def match(self, state: State) -> None:
        """Create the nodes that are missing, remove those that no pool has, wait until ready."""
        wanted = {
            name: _node(name, number, pool)
            for number, pool in state.of("LkeNodePool").items()
            for name in pool["nodes"]
        }
        there = {node["metadata"]["name"]: node for node in self._api.list("nodes")}
        for name in there.keys() - wanted.keys():
            self._api.delete("nodes", name)
        for name in wanted.keys() - there.keys():
            self._api.create("nodes", wanted[name])
        for name in wanted.keys() & there.keys():
            spec, meta = wanted[name]["spec"], wanted[name]["metadata"]
            self._api.patch("nodes", name, {"metadata": meta, "spec": spec})
        self._wait(set(wanted))

    def left(self, system: tuple[str, ...]) -> list[str]:
        """What costs money once nobody inside can delete it any more."""
        services = [s for s in self._api.list("services") if s["spec"]["type"] == "LoadBalancer"]
        claims = self._api.list("persistentvolumeclaims")
        spaces = [n["metadata"] for n in self._api.list("namespaces")]
        return [
            *(f"service {s['metadata']['name']}" for s in services),
            *(f"claim {c['metadata']['name']}" for c in claims),
            *(f"namespace {n['name']}" for n in spaces if n["name"] not in system),
        ]

    def _wait(self, names: set[str]) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            ready = {n["metadata"]["name"] for n in self._api.list("nodes") if is_ready(n)}
            if names <= ready:
                return
            time.sleep(0.2)
        raise TimeoutError(f"nodes are not ready after {_READY_TIMEOUT_S} s")


def is_ready(node: Object) -> bool:
    """Whether a node's kubelet says that it is ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _node(name: str, number: str, pool: dict[str, Any]) -> Object:
    """A node as LKE makes it; a GPU shows up only once its device plugin runs."""
    plan = PLANS[pool["type"]]
    capacity = {
        "cpu": str(plan.vcpus),
        "memory": f"{plan.memory_gib}Gi",
        "ephemeral-storage": f"{plan.disk_gb}G",
        "pods": "110",
    }
    usable = capacity | {
        "cpu": f"{int(plan.vcpus * 1000 * _ALLOCATABLE)}m",
        "memory": f"{int(plan.memory_gib * 1024 * _ALLOCATABLE)}Mi",
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "lke.linode.com/pool-id": number,
        "node.kubernetes.io/instance-type": pool["type"],
        **({"feature.node.kubernetes.io/pci-10de.present": "true"} if plan.gpus else {}),
        **pool["labels"],
    }
    annotations = {"kwok.x-k8s.io/node": "fake"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": pool["taints"]},
        "status": {"capacity": capacity, "allocatable": usable},
    }


def _storage_class(name: str, policy: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "linodebs.csi.linode.com",
        "reclaimPolicy": policy,
        "allowVolumeExpansion": True,
        "volumeBindingMode": "Immediate",
    }


_DNS_LABELS = {"k8s-app": "kube-dns"}


def _dns() -> Object:
    container = {"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.1"}
    spec = {"containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "labels": _DNS_LABELS},
        "spec": {
            "selector": {"matchLabels": _DNS_LABELS},
            "template": {"metadata": {"labels": _DNS_LABELS}, "spec": spec},
        },
    }


def _dns_service() -> Object:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"selector": _DNS_LABELS, "ports": ports, "clusterIP": "10.128.0.10"},
    }
