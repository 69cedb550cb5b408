"""vllm-router in front of several vLLM servers: a prompt goes where its beginning is cached.

No image of it is published: its wheel is installed by hash onto a small volume, once, and the
next starts need nothing from outside.
"""

from __future__ import annotations

import pulumi

from nearfar_infra import names
from nearfar_infra.manifests import Manifest, containers, libraries, model_files
from nearfar_infra.manifests.vllm import LEAVE_S, PORT

ROUTER = "router"
METRICS_PORT = 29000
CLAIM = "router-files"
FILES = "/files"
# As large as a request may be at the gate (docs/gate.md).
LARGEST_BYTES = 32 << 20
# The longest answer: a stream is cut after this.
LONGEST_S = 3600
# Of pods that ask the Kubernetes API; policies select by it.
ASKS_API = {"nearfar.dev/asks-api": "true"}


def requirements() -> str:
    """vllm-router and all that it imports, with hashes."""
    return libraries.router_lock().read_text("utf-8")


def version() -> str:
    """Names the scripts' ConfigMap and the libraries' folder."""
    return libraries.version_of(requirements() + model_files.script())


def scripts(namespace: pulumi.Input[str]) -> Manifest:
    """The program that installs, and what it installs."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"router-{version()}",
            "namespace": namespace,
            "labels": names.labels("router"),
        },
        "immutable": True,
        "data": {"fetch_model.py": model_files.script(), "libraries.txt": requirements()},
    }


def claim(namespace: pulumi.Input[str], storage_class: str) -> Manifest:
    """The volume of its libraries, as small as Linode makes them."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM,
            "namespace": namespace,
            "labels": names.labels("router"),
            "annotations": model_files.BOUND_LATER,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


def access(namespace: pulumi.Input[str]) -> tuple[Manifest, Manifest, Manifest]:
    """Account, Role and binding: it looks for pods in its own namespace, and nowhere else."""
    meta = {"name": ROUTER, "namespace": namespace, "labels": names.labels("router")}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    rbac = "rbac.authorization.k8s.io"
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ROUTER},
            "subjects": [{"kind": "ServiceAccount", "name": ROUTER, "namespace": namespace}],
        },
    )


def arguments() -> list[str]:
    """vllm-router's flags.

    A grant is good for one attempt, so nothing is tried again here; a server that sheds says so
    with a 503 that must reach the edge, so no circuit opens over it.
    """
    found = ["--host", "0.0.0.0", "--port", str(PORT), "--policy", "cache_aware"]  # noqa: S104
    found += ["--service-discovery", "--service-discovery-namespace", names.SERVING]
    found += ["--service-discovery-port", str(PORT)]
    found += ["--selector", *(f"{key}={value}" for key, value in names.selector("vllm").items())]
    found += ["--disable-retries", "--disable-circuit-breaker"]
    found += ["--health-check-endpoint", "/health", "--health-check-interval-secs", "5"]
    found += ["--request-timeout-secs", str(LONGEST_S), "--max-payload-size", str(LARGEST_BYTES)]
    return [*found, "--prometheus-host", "0.0.0.0", "--prometheus-port", str(METRICS_PORT)]  # noqa: S104


def deployment(namespace: pulumi.Input[str], image: str, mirror: str | None) -> Manifest:
    """One router: its view of who has what cached is its own. Its volume fits one node."""
    labels = names.labels("router") | model_files.FETCHES | ASKS_API
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": ROUTER, "namespace": namespace, "labels": names.labels("router")},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": names.selector("router")},
            "template": {"metadata": {"labels": labels}, "spec": _pod(image, mirror)},
        },
    }


def _pod(image: str, mirror: str | None) -> Manifest:
    return containers.pod_basics() | {
        "automountServiceAccountToken": True,
        "serviceAccountName": ROUTER,
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "securityContext": containers.pod_security(),
        "terminationGracePeriodSeconds": 90,
        "initContainers": [_install(image, mirror)],
        "containers": [_router(image)],
        "volumes": [
            {"name": "files", "persistentVolumeClaim": {"claimName": CLAIM}},
            {"name": "scripts", "configMap": {"name": f"router-{version()}"}},
            containers.scratch("tmp", "1Gi"),
        ],
    }


def _install(image: str, mirror: str | None) -> Manifest:
    command = ["python3", f"{model_files.SCRIPTS}/fetch_model.py"]
    command += ["--libraries", f"{model_files.SCRIPTS}/libraries.txt"]
    return (
        {
            "name": "install",
            "image": image,
            "command": [*command, "--libraries-to", f"{FILES}/{version()}"],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": containers.container_security(),
            "volumeMounts": [
                containers.mount("files", FILES),
                containers.mount("scripts", model_files.SCRIPTS, read_only=True),
                containers.mount("tmp", "/tmp"),  # noqa: S108 - the pod's own
            ],
        }
        | containers.env({"HOME": "/tmp"} | model_files.mirrored(mirror))  # noqa: S108
        | containers.resources("100m", "256Mi", most_memory="1Gi")
    )


def _router(image: str) -> Manifest:
    health = {"httpGet": {"path": "/health", "port": "http"}}
    return (
        {
            "name": "router",
            "image": image,
            "command": ["python3", "-m", "vllm_router.launch_router"],
            "args": arguments(),
            "ports": [
                {"name": "http", "containerPort": PORT},
                {"name": "metrics", "containerPort": METRICS_PORT},
            ],
            "lifecycle": {"preStop": {"sleep": {"seconds": LEAVE_S}}},
            "readinessProbe": health | {"periodSeconds": 5, "timeoutSeconds": 4},
            "livenessProbe": health | {"periodSeconds": 15, "failureThreshold": 4},
            "securityContext": containers.container_security(),
            "volumeMounts": [
                containers.mount("files", FILES, read_only=True),
                containers.mount("tmp", "/tmp"),  # noqa: S108
            ],
        }
        | containers.env({"PYTHONPATH": f"{FILES}/{version()}", "HOME": "/tmp"})  # noqa: S108
        | containers.resources("500m", "256Mi", most_memory="1Gi")
    )
