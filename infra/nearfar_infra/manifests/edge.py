"""The edge inside the cluster, as far as both of its hosts share it: Service, trial, pull secret.

Everything that belongs to one version of the edge carries a tag in its name and labels. A change
is a new set beside the old one; the Service that clients reach is turned to it after the trial.
"""

from __future__ import annotations

import base64
import json
from importlib import resources

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest
from nearfar_infra.manifests.containers import (
    container_security,
    env,
    pod_basics,
    pod_security,
)
from nearfar_infra.manifests.containers import resources as needs

TAG = "nearfar.dev/edge"
# The name of the port that pods of the edge listen on, whatever its number is.
PORT_NAME = "http-app"
PULL_SECRET = "edge-registry"  # noqa: S105 - the name of a Secret
# A model that loads its weights anew is waited for by then; the start-up budget ends sooner.
TRIAL_S = 900


def labels(tag: str) -> dict[str, str]:
    """Labels of one version of the edge."""
    return {**names.labels("edge"), TAG: tag}


def named(tag: str) -> str:
    return f"edge-{tag}"


def settings_secret(tag: str, namespace: str, variables: dict[str, str]) -> Manifest:
    """Every setting of one version; it cannot be changed, since a change has another tag."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": named(tag), "namespace": namespace, "labels": labels(tag)},
        "immutable": True,
        "stringData": variables,
    }


def service(namespace: str, tag: str) -> Manifest:
    """What the way in leads to: the one version of the edge that answered."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": flows.EDGE_SERVICE,
            "namespace": namespace,
            "labels": names.labels("edge"),
        },
        "spec": {
            "selector": {**names.selector("edge"), TAG: tag},
            "ports": [{"name": "http", "port": flows.EDGE_PORT, "targetPort": PORT_NAME}],
        },
    }


def candidate(tag: str, namespace: str) -> Manifest:
    """Where the trial asks one version, before clients do."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        # SpinKube's operator makes a Service of the plain name.
        "metadata": {"name": f"{named(tag)}-try", "namespace": namespace, "labels": labels(tag)},
        "spec": {
            "selector": {**names.selector("edge"), TAG: tag},
            "ports": [{"name": "http", "port": 80, "targetPort": PORT_NAME}],
        },
    }


def key_secret(tag: str, namespace: str, api_key: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{named(tag)}-trial", "namespace": namespace, "labels": labels(tag)},
        "immutable": True,
        "stringData": {"key": api_key},
    }


def trial(tag: str, namespace: str, model: str, image: str) -> Manifest:
    """A Job that asks one version a question; the image needs Python and nothing else."""
    source = resources.files("nearfar_infra.in_pod").joinpath("ask_edge.py").read_text("utf-8")
    plain = {"URL": f"http://{named(tag)}-try", "MODEL": model}
    container = {
        "name": "ask",
        "image": image,
        "command": ["python3", "-c", source],
        "securityContext": container_security(),
        **env(plain, {"KEY": (f"{named(tag)}-trial", "key")}),
        **needs("10m", "64Mi"),
    }
    # Not the edge's labels: its Services must not find the one that asks.
    asker = {**names.labels("edge-trial"), TAG: tag}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{named(tag)}-trial", "namespace": namespace, "labels": asker},
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": TRIAL_S,
            "template": {
                "metadata": {"labels": asker},
                "spec": {
                    **pod_basics(),
                    "restartPolicy": "Never",
                    "securityContext": pod_security(),
                    "nodeSelector": names.on_pool(names.CPU_POOL),
                    "containers": [container],
                },
            },
        },
    }


def pull_secret(namespace: str, registry: str, user: str, password: str) -> Manifest:
    """Lets nodes pull from a registry that wants a user."""
    entry = {
        "username": user,
        "password": password,
        "auth": base64.b64encode(f"{user}:{password}".encode()).decode(),
    }
    document = {"auths": {registry.partition("/")[0]: entry}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": PULL_SECRET,
            "namespace": namespace,
            "labels": names.labels("edge"),
        },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps(document)},
    }


def disruption_budget(namespace: str) -> Manifest:
    """Nodes are drained one edge at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "edge", "namespace": namespace, "labels": names.labels("edge")},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": names.selector("edge")}},
    }
