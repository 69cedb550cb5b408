"""The OpenTelemetry collector: the edge comes over HTTP with a token, vLLM from inside without.

Spans go on to Tempo, metrics to Prometheus, which reads them here.
"""

from __future__ import annotations

import hashlib
import json

import pulumi

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, containers, tempo

SECRET = "collector"  # noqa: S105 - its name
METRICS_PORT = 8889
HEALTH_PORT = 13133
# The image's own user.
USER = 10001
ENDPOINT = f"http://{flows.COLLECTOR_SERVICE}.{names.MONITORING}.svc:{flows.COLLECTOR_GRPC_PORT}"


def configuration() -> Manifest:
    """The collector's configuration. What comes without a token comes from inside by policy."""
    http = {
        "endpoint": f"0.0.0.0:{flows.COLLECTOR_PORT}",
        "auth": {"authenticator": "bearertokenauth"},
    }
    inside = {"endpoint": f"0.0.0.0:{flows.COLLECTOR_GRPC_PORT}"}
    receivers = ["otlp/edge", "otlp/inside"]
    batching = ["memory_limiter", "batch"]
    return {
        "extensions": {
            "bearertokenauth": {"token": "${env:COLLECTOR_TOKEN}"},
            "health_check": {"endpoint": f"0.0.0.0:{HEALTH_PORT}"},
        },
        "receivers": {
            "otlp/edge": {"protocols": {"http": http}},
            "otlp/inside": {"protocols": {"grpc": inside}},
        },
        "processors": {
            "memory_limiter": {
                "check_interval": "1s",
                "limit_percentage": 75,
                "spike_limit_percentage": 20,
            },
            "batch": {"timeout": "5s"},
        },
        "exporters": {
            "otlphttp": {"endpoint": tempo.ENDPOINT},
            "prometheus": {"endpoint": f"0.0.0.0:{METRICS_PORT}"},
        },
        "service": {
            "extensions": ["bearertokenauth", "health_check"],
            "pipelines": {
                "traces": {
                    "receivers": receivers,
                    "processors": batching,
                    "exporters": ["otlphttp"],
                },
                "metrics": {
                    "receivers": receivers,
                    "processors": batching,
                    "exporters": ["prometheus"],
                },
            },
        },
    }


def objects(
    namespace: pulumi.Input[str], image: str, token: pulumi.Input[str]
) -> dict[str, Manifest]:
    """Secret, configuration, Service and Deployment, in this order."""
    meta = {
        "name": flows.COLLECTOR_SERVICE,
        "namespace": namespace,
        "labels": names.labels("collector"),
    }
    ports = {"http": flows.COLLECTOR_PORT, "grpc": flows.COLLECTOR_GRPC_PORT}
    return {
        "token": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "stringData": {"token": pulumi.Output.secret(token)},
        },
        "configuration": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            # JSON is YAML.
            "data": {"config.yaml": json.dumps(configuration(), indent=1, sort_keys=True)},
        },
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {
                "selector": names.selector("collector"),
                "ports": [{"name": n, "port": p, "targetPort": n} for n, p in ports.items()],
            },
        },
        "deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": names.selector("collector")},
                "template": {
                    "metadata": {
                        "labels": names.labels("collector"),
                        "annotations": {"nearfar.dev/configuration": _version(token)},
                    },
                    "spec": _pod(image, ports),
                },
            },
        },
    }


def _version(token: pulumi.Input[str]) -> pulumi.Output[str]:
    """Changes with the configuration and the token, so that the pod is started anew."""
    text = json.dumps(configuration(), sort_keys=True)
    hashed = pulumi.Output.from_input(token).apply(
        lambda known: hashlib.sha256((text + known).encode()).hexdigest()[:16]
    )
    return pulumi.Output.unsecret(hashed)


def _pod(image: str, ports: dict[str, int]) -> Manifest:
    probe = {"httpGet": {"path": "/", "port": "health"}, "periodSeconds": 10}
    listening = ports | {"metrics": METRICS_PORT, "health": HEALTH_PORT}
    container = (
        {
            "name": "collector",
            "image": image,
            "args": ["--config=/etc/collector/config.yaml"],
            "ports": [{"name": n, "containerPort": p} for n, p in listening.items()],
            "readinessProbe": probe,
            "livenessProbe": probe | {"failureThreshold": 6},
            "securityContext": containers.container_security(),
            "volumeMounts": [containers.mount("configuration", "/etc/collector", read_only=True)],
        }
        | containers.env({}, {"COLLECTOR_TOKEN": (SECRET, "token")})
        | containers.resources("100m", "256Mi", most_memory="512Mi")
    )
    return containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "securityContext": containers.pod_security(USER, USER),
        "containers": [container],
        "volumes": [
            {"name": "configuration", "configMap": {"name": flows.COLLECTOR_SERVICE}},
        ],
    }
