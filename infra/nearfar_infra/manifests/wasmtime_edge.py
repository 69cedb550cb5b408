"""The edge as wasmtime in a Deployment: one for each version, so that an old one serves on."""

from __future__ import annotations

from nearfar.edge import ServeOptions, serve_words
from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest
from nearfar_infra.manifests import edge as shared
from nearfar_infra.manifests.containers import container_security, pod_basics, resources

COMPONENT = "/app/edge.cwasm"
# The user of the image (plugin/edge_image.py).
USER = 65532
# Who drains a node waits for streams that run; an answer seldom takes longer.
DRAIN_S = 30


def deployment(
    tag: str,
    namespace: str,
    image: str,
    variables: dict[str, str],
    replicas: int,
    *,
    private: bool,
) -> Manifest:
    """`variables` are settings by their names in an environment; values come from the Secret."""
    pod = {
        **pod_basics(),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "terminationGracePeriodSeconds": DRAIN_S + 15,
        "topologySpreadConstraints": [_spread(tag)],
        "containers": [_container(tag, image, variables)],
    }
    if private:
        pod["imagePullSecrets"] = [{"name": shared.PULL_SECRET}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": shared.named(tag),
            "namespace": namespace,
            "labels": shared.labels(tag),
        },
        "spec": {
            "replicas": replicas,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "selector": {"matchLabels": {**names.selector("edge"), shared.TAG: tag}},
            "template": {"metadata": {"labels": shared.labels(tag)}, "spec": pod},
        },
    }


def _container(tag: str, image: str, variables: dict[str, str]) -> Manifest:
    options = ServeOptions(flows.EDGE_PORT, address="0.0.0.0")  # noqa: S104 - in a pod of its own
    alive = {"httpGet": {"path": "/healthz", "port": shared.PORT_NAME}}
    return {
        "name": "edge",
        "image": image,
        "args": list(serve_words(COMPONENT, options, variables)),
        "ports": [{"name": shared.PORT_NAME, "containerPort": flows.EDGE_PORT}],
        "envFrom": [{"secretRef": {"name": shared.named(tag)}}],
        "securityContext": container_security(),
        "startupProbe": {**alive, "periodSeconds": 1, "failureThreshold": 60},
        # Not /readyz, which asks the model: while that is away, answers that are kept are served,
        # and the rest gets a 503 that says when to come again.
        "readinessProbe": {**alive, "periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": {**alive, "periodSeconds": 10, "timeoutSeconds": 5},
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_S}}},
        **resources("250m", "512Mi", most_memory="1Gi"),
    }


def _spread(tag: str) -> Manifest:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {shared.TAG: tag}},
    }
