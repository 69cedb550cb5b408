"""NVIDIA's GPU operator: the chart's values, and the Job that waits until a GPU is advertised."""

from __future__ import annotations

import hashlib
from importlib import resources

import pulumi

from nearfar_infra import names
from nearfar_infra.manifests import Manifest, containers
from nearfar_infra.manifests.router import ASKS_API

CHECK = "gpu-check"
# Boot of a new node, driver, toolkit, device plugin; seen at 4 to 10 minutes by others.
ADVERTISED_WITHIN_S = 1200
DCGM_PORT = 9400
_REGISTRY = "nvcr.io"


def values(mirror_host: str | None) -> Manifest:
    """The chart's values. Its tags are pinned by the chart's version; a mirror holds them all.

    The driver's image gets the node's system into its tag, so no digest can be given.
    """
    found: Manifest = {
        "daemonsets": {"tolerations": names.gpu_tolerations()},
        "operator": {"cleanupCRD": True, "upgradeCRD": True, "nodeSelector": names.on_pool("cpu")},
        "dcgmExporter": {"enabled": True, "serviceMonitor": {"enabled": False}},
        "node-feature-discovery": {
            "worker": {"tolerations": names.gpu_tolerations()},
            "master": {"nodeSelector": names.on_pool("cpu")},
            "gc": {"nodeSelector": names.on_pool("cpu")},
        },
        # Nothing here is a virtual machine's host, and one card is not split.
        "sandboxWorkloads": {"enabled": False},
        "migManager": {"enabled": False},
        "vgpuDeviceManager": {"enabled": False},
        "vfioManager": {"enabled": False},
    }
    return found if mirror_host is None else _merged(found, mirrored(mirror_host))


def mirrored(host: str) -> Manifest:
    """Every repository that the chart names, below the mirror's own."""
    nvidia, cloud, kubernetes = (
        f"{host}/{_REGISTRY}/nvidia{sub}" for sub in ("", "/cloud-native", "/k8s")
    )
    found: Manifest = {
        name: {"repository": nvidia}
        for name in ("validator", "operator", "driver", "devicePlugin", "gfd", "nodeStatusExporter")
    }
    found["driver"]["manager"] = {"repository": cloud}
    found |= {name: {"repository": kubernetes} for name in ("toolkit", "dcgmExporter")}
    found["dcgm"] = {"repository": cloud}
    image = {"repository": f"{host}/registry.k8s.io/nfd/node-feature-discovery"}
    found["node-feature-discovery"] = {"image": image}
    return found


def _merged(one: Manifest, other: Manifest) -> Manifest:
    found = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found


def script() -> str:
    """The program of the check."""
    return resources.files("nearfar_infra.in_pod").joinpath("wait_for_gpu.py").read_text("utf-8")


def access(namespace: pulumi.Input[str]) -> tuple[Manifest, Manifest, Manifest]:
    """Account, ClusterRole and binding: it reads nodes and nothing else."""
    rbac, labels = "rbac.authorization.k8s.io", names.labels("gpu-check")
    name = "nearfar-gpu-check"
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    subject = {"kind": "ServiceAccount", "name": CHECK, "namespace": namespace}
    return (
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": CHECK, "namespace": namespace, "labels": labels},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels},
            "rules": rules,
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    )


def version(image: str, chart: str) -> str:
    """Names the Job: another operator or another program is checked anew."""
    return hashlib.sha256(f"{image} {chart} {script()}".encode()).hexdigest()[:10]


def config_map(namespace: pulumi.Input[str], called: str) -> Manifest:
    """The program as the Job mounts it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{CHECK}-{called}",
            "namespace": namespace,
            "labels": names.labels("gpu-check"),
        },
        "immutable": True,
        "data": {"wait_for_gpu.py": script()},
    }


def check(namespace: pulumi.Input[str], image: str, called: str, nodes: int) -> Manifest:
    """The Job. It asks the API and takes no GPU: vLLM may hold the only one when it runs again."""
    labels = names.labels("gpu-check") | ASKS_API
    pod = containers.pod_basics() | {
        "automountServiceAccountToken": True,
        "serviceAccountName": CHECK,
        "restartPolicy": "Never",
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "securityContext": containers.pod_security(),
        "containers": [_container(image, nodes)],
        "volumes": [{"name": "program", "configMap": {"name": f"{CHECK}-{called}"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{CHECK}-{called}",
            "namespace": namespace,
            "labels": names.labels("gpu-check"),
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": ADVERTISED_WITHIN_S + 300,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container(image: str, nodes: int) -> Manifest:
    command = ["python3", "/program/wait_for_gpu.py", "--resource", names.GPU_RESOURCE]
    command += ["--selector", f"{names.POOL_LABEL}={names.GPU_POOL}", "--nodes", str(nodes)]
    return {
        "name": "check",
        "image": image,
        "command": [*command, "--within", str(ADVERTISED_WITHIN_S)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": containers.container_security(),
        "volumeMounts": [containers.mount("program", "/program", read_only=True)],
    } | containers.resources("50m", "64Mi", most_memory="128Mi")
