"""Embeddings by vLLM on the CPU pool: a model of 90 MB, fetched once onto a volume of its own."""

from __future__ import annotations

import pulumi

from gpu_backend import command
from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, containers, model_files

NAME = flows.EMBEDDINGS_SERVICE
PORT = flows.EMBEDDINGS_PORT
SECRET = "embeddings"  # noqa: S105 - its name
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
SERVED = "all-minilm-l6-v2"
# The longest text that the model was trained on, in tokens.
CONTEXT_TOKENS = 256
_VOLUME_GIB = 10


def objects(
    namespace: pulumi.Input[str],
    image: str,
    storage_class: str,
    key: pulumi.Input[str],
    mirror: str | None,
) -> dict[str, Manifest]:
    """Secret, program, volume, Service and Deployment, in this order."""
    meta = {"name": NAME, "namespace": namespace, "labels": names.labels(NAME)}
    pod = {
        "metadata": {"labels": names.labels(NAME) | model_files.FETCHES},
        "spec": _pod(image, mirror),
    }
    return {
        "secret": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "stringData": {"key": pulumi.Output.secret(key)},
        },
        "program": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"fetch_model.py": model_files.script()},
        },
        "volume": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": meta | {"annotations": model_files.BOUND_LATER},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "resources": {"requests": {"storage": f"{_VOLUME_GIB}Gi"}},
            },
        },
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {
                "selector": names.selector(NAME),
                "ports": [{"name": "http", "port": PORT, "targetPort": "http"}],
            },
        },
        "deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": names.selector(NAME)},
                "template": pod,
            },
        },
    }


def _pod(image: str, mirror: str | None) -> Manifest:
    return containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "securityContext": containers.pod_security(),
        "initContainers": [_fetch(image, mirror)],
        "containers": [_server(image)],
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": NAME}},
            {"name": "program", "configMap": {"name": NAME}},
            containers.scratch("shm", "512Mi", memory=True),
            containers.scratch("tmp", "2Gi"),
        ],
    }


def _fetch(image: str, mirror: str | None) -> Manifest:
    argv = ["python3", f"{model_files.SCRIPTS}/fetch_model.py", "--model", MODEL]
    plain = {"HF_HOME": model_files.WEIGHTS, "HOME": "/tmp"} | model_files.mirrored(mirror)  # noqa: S108
    return (
        {
            "name": "fetch",
            "image": image,
            "command": [*argv, "--revision", REVISION],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": containers.container_security(),
            "volumeMounts": [
                containers.mount("model", model_files.WEIGHTS),
                containers.mount("program", model_files.SCRIPTS, read_only=True),
                containers.mount("tmp", "/tmp"),  # noqa: S108 - the pod's own
            ],
        }
        | containers.env(plain)
        | containers.resources("250m", "512Mi", most_memory="2Gi")
    )


def _server(image: str) -> Manifest:
    health = {"httpGet": {"path": "/health", "port": "http"}}
    flags = ["--model", MODEL, "--revision", REVISION, "--served-model-name", SERVED]
    flags += ["--runner", "pooling", "--max-model-len", str(CONTEXT_TOKENS), "--dtype", "float32"]
    flags += ["--host", "0.0.0.0", "--port", str(PORT), "--disable-uvicorn-access-log"]  # noqa: S104
    plain = {
        "HF_HOME": model_files.WEIGHTS,
        "HF_HUB_OFFLINE": "1",
        "HOME": "/tmp",  # noqa: S108
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    return (
        {
            "name": "embeddings",
            "image": image,
            "command": ["python3", "-m", command.MODULE],
            # Compiled for a CPU, vLLM 0.32 was seen to answer wrong text.
            "args": [*flags, "--enforce-eager"],
            "ports": [{"name": "http", "containerPort": PORT}],
            "startupProbe": health | {"periodSeconds": 10, "failureThreshold": 60},
            "readinessProbe": health | {"periodSeconds": 5, "timeoutSeconds": 4},
            "livenessProbe": health | {"periodSeconds": 15, "failureThreshold": 8},
            "securityContext": containers.container_security(),
            "volumeMounts": [
                containers.mount("model", model_files.WEIGHTS, read_only=True),
                containers.mount("shm", "/dev/shm"),  # noqa: S108
                containers.mount("tmp", "/tmp"),  # noqa: S108
            ],
        }
        | containers.env(plain, {"VLLM_API_KEY": (SECRET, "key")})
        | containers.resources("1", "3Gi", most_memory="5Gi")
    )
