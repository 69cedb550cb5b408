"""The volume of one vLLM server and the Job that fills it: weights once, libraries by hash.

/volume/weights     the hub's cache layout, read-only while serving
/volume/libraries   one folder for each set of libraries, read-only while serving
/volume/cache       what vLLM compiles, kept over restarts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from urllib.parse import urlsplit

import pulumi

from gpu_backend.spec import ServingSpec
from nearfar_infra import names
from nearfar_infra.manifests import Manifest, containers
from nearfar_infra.manifests.start_up import StartUp

VOLUME = "/volume"
WEIGHTS = "/weights"
LIBRARIES = "/libraries"
CACHE = "/cache"
SCRIPTS = "/scripts"
CLAIM = "model"
# The engine would wait for a claim to be bound, which its first pod does.
BOUND_LATER = {"pulumi.com/skipAwait": "true"}
# Of pods that may reach the model hub and the package index; policies select by it.
FETCHES = {"nearfar.dev/fetches": "true"}
# Of pods that use the one volume: it is attached to one node at a time, so they share a node.
USES_VOLUME = {"nearfar.dev/volume": CLAIM}


@dataclass(frozen=True, slots=True)
class Files:
    """What is put where. `libraries` is a requirements text with hashes.

    `mirror` holds an index of packages under /python and what the hub serves under /hub.
    """

    namespace: pulumi.Input[str]
    image: str
    spec: ServingSpec
    libraries: str
    budget: StartUp
    with_weights: bool
    hf_secret: str | None
    mirror: str | None = None

    @property
    def version(self) -> str:
        """Another one is another Job: it changes with anything that decides what is fetched."""
        decides = (self.spec.model, self.spec.revision, self.libraries, self.image, script())
        text = json.dumps((*decides, self.with_weights))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def libraries_folder(self) -> str:
        """Where one set of libraries lies, below the folder of all sets."""
        return hashlib.sha256(self.libraries.encode()).hexdigest()[:10]


def script() -> str:
    """The program that fetches."""
    source = resources.files("nearfar_infra.in_pod").joinpath("fetch_model.py")
    return source.read_text("utf-8")


def claim(namespace: pulumi.Input[str], storage_class: str, gib: int) -> Manifest:
    """The volume's claim. Its class decides whether a deleted claim takes the volume with it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM,
            "namespace": namespace,
            "labels": names.labels("vllm"),
            "annotations": BOUND_LATER,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": f"{gib}Gi"}},
        },
    }


def scripts(files: Files) -> Manifest:
    """The program and the list of libraries, under a name of their own for each version."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"fetch-{files.version}",
            "namespace": files.namespace,
            "labels": names.labels("fetch"),
        },
        "immutable": True,
        "data": {"fetch_model.py": script(), "libraries.txt": files.libraries},
    }


def job(files: Files) -> Manifest:
    """The Job. It runs on the GPU pool: there the volume will be used and the image be needed."""
    labels = names.labels("fetch") | FETCHES | USES_VOLUME
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"fetch-{files.version}",
            "namespace": files.namespace,
            "labels": names.labels("fetch"),
        },
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": files.budget.fetch_s,
            "template": {"metadata": {"labels": labels}, "spec": _pod(files)},
        },
    }


def _pod(files: Files) -> Manifest:
    return containers.pod_basics() | {
        "restartPolicy": "Never",
        "nodeSelector": names.on_pool(names.GPU_POOL),
        "tolerations": names.gpu_tolerations(),
        "affinity": beside_the_volume(),
        "securityContext": containers.pod_security(),
        "containers": [container(files, VOLUME, [containers.mount("model", VOLUME)])],
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": CLAIM}},
            *volumes(files),
        ],
    }


def container(files: Files, root: str, mounts: Sequence[Manifest]) -> Manifest:
    """The container that fetches below `root`; as an init step it fetches for its own pod."""
    command = ["python3", f"{SCRIPTS}/fetch_model.py", "--libraries", f"{SCRIPTS}/libraries.txt"]
    command += ["--libraries-to", f"{root}/libraries/{files.libraries_folder}"]
    command += ["--folder", f"{root}/weights", "--folder", f"{root}/cache"]
    if files.with_weights:
        command += ["--model", files.spec.model, "--revision", files.spec.revision]
    plain = {"HF_HOME": f"{root}/weights", "HOME": "/tmp", "HF_HUB_DISABLE_TELEMETRY": "1"}  # noqa: S108
    token = {"HF_TOKEN": (files.hf_secret, "token")} if files.hf_secret else None
    return (
        {
            "name": "fetch",
            "image": files.image,
            "command": command,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": containers.container_security(),
            "volumeMounts": [
                *mounts,
                containers.mount("fetch-scripts", SCRIPTS, read_only=True),
                containers.mount("fetch-tmp", "/tmp"),  # noqa: S108 - the pod's own
            ],
        }
        | containers.env(plain | mirrored(files.mirror), token)
        | containers.resources("1", "2Gi", most_memory="6Gi")
    )


def mirrored(mirror: str | None) -> dict[str, str]:
    """Variables that send pip and the hub's client to the one mirror."""
    if mirror is None:
        return {}
    parts = urlsplit(mirror)
    found = {
        "PIP_INDEX_URL": f"{mirror.rstrip('/')}/python/simple",
        "HF_ENDPOINT": f"{mirror.rstrip('/')}/hub",
    }
    return found if parts.scheme == "https" else found | {"PIP_TRUSTED_HOST": parts.netloc}


def volumes(files: Files) -> list[Manifest]:
    """The volumes that the container needs besides its root."""
    return [
        {"name": "fetch-scripts", "configMap": {"name": f"fetch-{files.version}"}},
        containers.scratch("fetch-tmp", "2Gi"),
    ]


def beside_the_volume() -> Manifest:
    """Run where another pod has the volume. A pod matches its own term where none has it yet."""
    return {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": dict(USES_VOLUME)},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
