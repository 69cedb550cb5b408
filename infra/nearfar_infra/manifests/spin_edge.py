"""The edge as a SpinApp, run by the Spin image itself ("spintainer").

The shim for containerd (0.23) carries Spin 3, and the component needs Spin 4: the operator's other
executor starts `spin up` in an ordinary container, and changes nothing on the nodes.
Source: spin-operator 0.6.1, its definitions and internal/controller/spinapp_controller.go.
"""

from __future__ import annotations

from typing import Any

from nearfar_infra.manifests import Manifest
from nearfar_infra.manifests import edge as shared

GROUP = "core.spinkube.dev"
API = f"{GROUP}/v1alpha1"
EXECUTOR = "spintainer"
STORE_KEY = "kv-url"
# Settings that a manifest of the application may show; the others come from the Secret.
_SECRET = frozenset({"key_secret", "key_secret_previous", "upstream_keys", "gate_secret", "store"})


def definition(kind: str, plural: str, *, status: bool) -> Manifest:
    """A definition of our own that lets every field through: the operator checks them itself.

    Its chart leaves the definitions out, and its own are a download at run time.
    """
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: dict[str, Any] = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}
        },
    }
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [version],
        },
    }


def executor(namespace: str, image: str) -> Manifest:
    return {
        "apiVersion": API,
        "kind": "SpinAppExecutor",
        "metadata": {"name": EXECUTOR, "namespace": namespace},
        "spec": {
            "createDeployment": True,
            "deploymentConfig": {"spinImage": image, "installDefaultCACerts": True},
        },
    }


def app(
    tag: str,
    namespace: str,
    artifact: str,
    variables: dict[str, str],
    replicas: int,
    *,
    private: bool,
) -> Manifest:
    """`variables` are the application's by their names."""
    alive = {
        "httpGet": {"path": "/healthz"},
        "initialDelaySeconds": 1,
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
        "successThreshold": 1,
    }
    spec: Manifest = {
        "image": artifact,
        "executor": EXECUTOR,
        "replicas": replicas,
        "podLabels": shared.labels(tag),
        "checks": {"readiness": alive, "liveness": {**alive, "initialDelaySeconds": 30}},
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"memory": "1Gi"},
        },
        "variables": [_variable(tag, name, value) for name, value in sorted(variables.items())],
        "runtimeConfig": {"keyValueStores": [_store(tag)]},
    }
    if private:
        spec["imagePullSecrets"] = [{"name": shared.PULL_SECRET}]
    return {
        "apiVersion": API,
        "kind": "SpinApp",
        "metadata": {
            "name": shared.named(tag),
            "namespace": namespace,
            "labels": shared.labels(tag),
        },
        "spec": spec,
    }


def shown(variables: dict[str, str]) -> dict[str, str]:
    """The variables without the values of those that the Secret holds."""
    return {name: "" if name in _SECRET else value for name, value in variables.items()}


def _variable(tag: str, name: str, value: str) -> Manifest:
    if name not in _SECRET:
        return {"name": name, "value": value}
    return {
        "name": name,
        "valueFrom": {"secretKeyRef": {"name": shared.named(tag), "key": name}},
    }


def _store(tag: str) -> Manifest:
    """Spin's own store is a file in the pod; this one is shared by all copies and outlives them."""
    key = {"secretKeyRef": {"name": shared.named(tag), "key": STORE_KEY}}
    return {
        "name": "default",
        "type": "redis",
        "options": [{"name": "url", "valueFrom": key}],
    }
