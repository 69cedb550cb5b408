"""What stands around vLLM's Deployment: Service, priority, disruption budget, image pre-pull."""

from __future__ import annotations

import pulumi

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, containers
from nearfar_infra.manifests.vllm import PORT, PRIORITY


def service(namespace: pulumi.Input[str], part: names.Part) -> Manifest:
    """The one address of the model, whoever answers behind it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": flows.MODEL_SERVICE,
            "namespace": namespace,
            "labels": names.labels(part),
        },
        "spec": {
            "selector": names.selector(part),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
        },
    }


def priority() -> Manifest:
    """vLLM stays when a node runs short; it takes nobody's place, since only it has GPUs."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": PRIORITY, "labels": names.labels("vllm")},
        "value": 1_000_000,
        "preemptionPolicy": "Never",
        "description": "The model servers of nearfar.",
    }


def disruption_budget(namespace: pulumi.Input[str]) -> Manifest:
    """One server at a time may be moved. A budget of none would block every node's recycling."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "vllm", "namespace": namespace, "labels": names.labels("vllm")},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": names.selector("vllm")}},
    }


def pre_pull(namespace: pulumi.Input[str], image: str, pause: str) -> Manifest:
    """Pull the image onto each GPU node as soon as it is there: some 12 GB of its own disk."""
    pod = containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.GPU_POOL),
        "tolerations": names.gpu_tolerations(),
        "securityContext": containers.pod_security(),
        "initContainers": [_pulled("pull", image, ["true"])],
        "containers": [_pulled("stay", pause, None)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": "pre-pull",
            "namespace": namespace,
            "labels": names.labels("pre-pull"),
        },
        "spec": {
            "selector": {"matchLabels": names.selector("pre-pull")},
            "template": {"metadata": {"labels": names.labels("pre-pull")}, "spec": pod},
        },
    }


def _pulled(name: str, image: str, command: list[str] | None) -> Manifest:
    found = {
        "name": name,
        "image": image,
        "securityContext": containers.container_security(),
    } | containers.resources("10m", "16Mi", most_memory="64Mi")
    return found if command is None else found | {"command": command}
