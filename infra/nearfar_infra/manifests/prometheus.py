"""kube-prometheus-stack: its values, and what Prometheus reads of our pods."""

from __future__ import annotations

import pulumi

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, router
from nearfar_infra.manifests.registries import registry

RELEASE = "monitoring"
GRAFANA_SECRET = "grafana-admin"  # noqa: S105 - its name
GRAFANA_SERVICE = f"{RELEASE}-grafana"
# The operator's own Service of every Prometheus of a namespace.
PROMETHEUS = f"http://prometheus-operated.{names.MONITORING}.svc:9090"
RETENTION = "15d"
VOLUME_GIB = 20
SCRAPE_EVERY = "15s"
# The control plane is the provider's: nothing of it can be asked here.
_NOT_OURS = ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy")
_NO_RULES = (
    "etcd",
    "kubeControllerManager",
    "kubeProxy",
    "kubeSchedulerAlerting",
    "kubeSchedulerRecording",
    "windows",
)
# Where the chart names a registry → the registry.
_REGISTRIES = {
    ("alertmanager", "alertmanagerSpec", "image"): "quay.io",
    ("prometheusOperator", "image"): "quay.io",
    ("prometheusOperator", "prometheusConfigReloader", "image"): "quay.io",
    ("prometheusOperator", "admissionWebhooks", "patch", "image"): "ghcr.io",
    ("prometheus", "prometheusSpec", "image"): "quay.io",
    ("kube-state-metrics", "image"): "registry.k8s.io",
    ("prometheus-node-exporter", "image"): "quay.io",
    ("grafana", "image"): "docker.io",
    ("grafana", "sidecar", "image"): "quay.io",
}


def values(storage_class: str, cluster: str, mirror: str | None) -> Manifest:
    """The chart's values. Its images are those that this version of the chart names."""
    found: Manifest = {
        "defaultRules": {"rules": dict.fromkeys(_NO_RULES, False)},
        "alertmanager": {"alertmanagerSpec": {"nodeSelector": _cpu()}},
        "prometheusOperator": {"nodeSelector": _cpu()},
        "prometheus": {"prometheusSpec": _prometheus(storage_class, cluster)},
        "kube-state-metrics": {"nodeSelector": _cpu()},
        # On every node, those with a GPU too. Not on the node's own address: its private network is
        # shared with other customers of the region, and the nodes' firewall has 9100 closed.
        "prometheus-node-exporter": {
            "hostNetwork": False,
            "tolerations": [{"operator": "Exists"}],
        },
        "grafana": _grafana(),
    } | {part: {"enabled": False} for part in _NOT_OURS}
    if mirror is not None:
        for path, host in _REGISTRIES.items():
            _put(found, (*path, "registry"), registry(host, mirror))
    return found


def _cpu() -> dict[str, str]:
    return names.on_pool(names.CPU_POOL)


def _prometheus(storage_class: str, cluster: str) -> Manifest:
    """Every monitor and rule of the cluster counts, whoever made it."""
    nil = ("podMonitor", "serviceMonitor", "rule", "probe", "scrapeConfig")
    claim = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{VOLUME_GIB}Gi"}},
    }
    return {f"{kind}SelectorNilUsesHelmValues": False for kind in nil} | {
        "retention": RETENTION,
        "retentionSize": f"{VOLUME_GIB * 8 // 10}GiB",
        "scrapeInterval": SCRAPE_EVERY,
        "externalLabels": {"cluster": cluster},
        "nodeSelector": _cpu(),
        "storageSpec": {"volumeClaimTemplate": {"spec": claim}},
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    }


def _grafana() -> Manifest:
    """Behind a password, with no way in from outside, and with nothing that only it knows."""
    return {
        "admin": {
            "existingSecret": GRAFANA_SECRET,
            "userKey": "user",
            "passwordKey": "password",
        },
        "nodeSelector": _cpu(),
        "service": {"type": "ClusterIP"},
        "ingress": {"enabled": False},
        "testFramework": {"enabled": False},
        "grafana.ini": {
            "auth.anonymous": {"enabled": False},
            "auth.basic": {"enabled": True},
            "users": {"allow_sign_up": False, "allow_org_create": False},
            "analytics": {"reporting_enabled": False, "check_for_updates": False},
            "security": {"disable_gravatar": True},
            "snapshots": {"external_enabled": False},
        },
    }


def _put(values: Manifest, path: tuple[str, ...], value: str) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def secret(namespace: pulumi.Input[str], password: pulumi.Input[str]) -> Manifest:
    """Grafana's first and only account."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": GRAFANA_SECRET,
            "namespace": namespace,
            "labels": names.labels("grafana"),
        },
        "stringData": {"user": "admin", "password": pulumi.Output.secret(password)},
    }


# Name → (namespace, labels of the pods, [(port's name, path)]).
_WATCHED: dict[str, tuple[str, dict[str, str], tuple[tuple[str, str], ...]]] = {
    "vllm": (
        names.SERVING,
        names.selector("vllm"),
        (("http", "/metrics"), ("http", "/nearfar/metrics")),
    ),
    "router": (names.SERVING, names.selector("router"), (("metrics", "/metrics"),)),
    "traefik": (names.INGRESS, names.selector("traefik"), (("metrics", "/metrics"),)),
    "gpu": (names.GPU_OPERATOR, {"app": "nvidia-dcgm-exporter"}, (("metrics", "/metrics"),)),
    "collector": (names.MONITORING, names.selector("collector"), (("metrics", "/metrics"),)),
}
# Ports that the policies have to let Prometheus reach.
PORTS = {"vllm": flows.MODEL_PORT, "router": router.METRICS_PORT}


def pod_monitors(namespace: pulumi.Input[str]) -> dict[str, Manifest]:
    """What Prometheus asks, by name. Pods that are not there yet cost nothing."""
    return {
        name: {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": {"name": name, "namespace": namespace, "labels": names.labels("monitor")},
            "spec": {
                "namespaceSelector": {"matchNames": [where]},
                "selector": {"matchLabels": labels},
                "podMetricsEndpoints": [
                    {"port": port, "path": path, "interval": SCRAPE_EVERY}
                    for port, path in endpoints
                ],
            },
        }
        for name, (where, labels, endpoints) in _WATCHED.items()
    }
