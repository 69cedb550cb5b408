"""When there are more or fewer vLLM servers: what KEDA asks Prometheus, and what it does then.

At zero pods neither vLLM nor its gate says anything, so what wakes the first server is asked of
the ingress: it sees every request of the edges that no cache answered.
"""

from __future__ import annotations

import pulumi

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, vllm
from nearfar_infra.settings import ServingSettings
from nearfar_infra.sources import Sources

POLL_S = 15
# A GPU node that was paid for an hour is not given back after a quiet minute.
QUIET_S = 900
# Traefik's own names of what stands behind its routes: namespace, Service, port. An edge inside
# the cluster asks the model without Traefik, so there the edge's own route is what tells.
BEHIND = f"({names.SERVING}-{flows.MODEL_SERVICE}-{flows.MODEL_PORT}|{names.EDGE}-.*)@kubernetescrd"
# How full the seats may be, over all servers, before another one is wanted.
FULL = 0.8


def queries(serving: ServingSettings) -> dict[str, tuple[str, str]]:
    """Name → (query, value for each server)."""
    spec = serving.spec
    waiting = max(1, (spec.max_num_queued_reqs - spec.max_num_seqs) // 2)
    asked = f'sum(increase(traefik_service_requests_total{{service=~"{BEHIND}"}}[5m]))'
    return {
        # One server while anybody asks; how many more is what the others say.
        "edge": (f"clamp_max({asked}, 1) or vector(0)", "1"),
        "seats": (
            "sum(nearfar_gate_in_flight) or vector(0)",
            str(round(spec.max_num_seqs * FULL)),
        ),
        "waiting": ("sum(vllm:num_requests_waiting) or vector(0)", str(waiting)),
    }


def scaled_object(
    namespace: pulumi.Input[str],
    deployment: pulumi.Input[str],
    prometheus: pulumi.Input[str],
    serving: ServingSettings,
) -> Manifest:
    """The ScaledObject of vLLM's Deployment."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "name": vllm.DEPLOYMENT,
            "namespace": namespace,
            "labels": names.labels("vllm"),
        },
        "spec": {
            "scaleTargetRef": {"name": deployment},
            "minReplicaCount": 0 if serving.scale_to_zero else serving.replicas,
            "maxReplicaCount": serving.autoscale_max,
            "pollingInterval": POLL_S,
            "cooldownPeriod": QUIET_S,
            # Prometheus away: as many as without scaling, rather than none.
            "fallback": {"failureThreshold": 8, "replicas": serving.replicas},
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behaviour()}},
            "triggers": [
                _trigger(name, query, value, prometheus)
                for name, (query, value) in queries(serving).items()
            ],
        },
    }


def _trigger(name: str, query: str, value: str, prometheus: pulumi.Input[str]) -> Manifest:
    return {
        "type": "prometheus",
        "name": name,
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": prometheus,
            "query": query,
            "threshold": value,
            "activationThreshold": "0",
        },
    }


def _behaviour() -> Manifest:
    """Up at once, down one at a time after a quiet while: a start costs minutes."""
    one = [{"type": "Pods", "value": 1, "periodSeconds": 300}]
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
        },
        "scaleDown": {"stabilizationWindowSeconds": QUIET_S, "policies": one},
    }


def values(sources: Sources) -> Manifest:
    """The chart's values: images by digest, and no eyes on other namespaces."""
    images = {
        "keda": "keda",
        "metricsApiServer": "keda-metrics-apiserver",
        "webhooks": "keda-admission-webhooks",
    }
    chosen: Manifest = {"pullPolicy": "IfNotPresent"}
    for key, image in images.items():
        found = sources.image(image)
        chosen[key] = {
            "registry": found.registry,
            "repository": found.repository,
            "tag": found.pinned_tag,
        }
    return {
        "image": chosen,
        "crds": {"install": True},
        "watchNamespace": names.SERVING,
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "enableServiceLinks": False,
    }
