"""Tempo in one process: where spans are kept for three days; Grafana alone asks it."""

from __future__ import annotations

import json

import pulumi

from nearfar_infra import names
from nearfar_infra.manifests import Manifest, containers

NAME = "tempo"
PORT = 3200
OTLP_PORT = 4318
USER = 10001
VOLUME_GIB = 10
KEPT = "72h"
ENDPOINT = f"http://{NAME}.{names.MONITORING}.svc:{OTLP_PORT}"


def configuration() -> Manifest:
    """Everything on the one volume."""
    return {
        "server": {"http_listen_port": PORT},
        "usage_report": {"reporting_enabled": False},
        "distributor": {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"0.0.0.0:{OTLP_PORT}"}}}}
        },
        "compactor": {"compaction": {"block_retention": KEPT}},
        "storage": {
            "trace": {
                "backend": "local",
                "wal": {"path": "/data/wal"},
                "local": {"path": "/data/blocks"},
            }
        },
    }


def objects(namespace: pulumi.Input[str], image: str, storage_class: str) -> dict[str, Manifest]:
    """Configuration, Service, the source for Grafana, and the StatefulSet, in this order."""
    meta = {"name": NAME, "namespace": namespace, "labels": names.labels(NAME)}
    ports = {"http": PORT, "otlp": OTLP_PORT}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": f"{VOLUME_GIB}Gi"}},
        },
    }
    return {
        "configuration": _config_map(meta, {"tempo.yaml": configuration()}),
        "source": _config_map(
            meta
            | {"name": "tempo-source", "labels": {**names.labels(NAME), "grafana_datasource": "1"}},
            {"tempo.yaml": _source()},
        ),
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {
                "selector": names.selector(NAME),
                "ports": [{"name": n, "port": p, "targetPort": n} for n, p in ports.items()],
            },
        },
        "server": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {
                "serviceName": NAME,
                "replicas": 1,
                "selector": {"matchLabels": names.selector(NAME)},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Delete",
                    "whenScaled": "Retain",
                },
                "template": {
                    "metadata": {"labels": names.labels(NAME)},
                    "spec": _pod(image, ports),
                },
                "volumeClaimTemplates": [claim],
            },
        },
    }


def _source() -> Manifest:
    one = {"name": "Tempo", "type": "tempo", "uid": "tempo", "access": "proxy"}
    return {
        "apiVersion": 1,
        "datasources": [one | {"url": f"http://{NAME}.{names.MONITORING}.svc:{PORT}"}],
    }


def _config_map(meta: Manifest, files: dict[str, Manifest]) -> Manifest:
    """A ConfigMap of files in JSON, which is YAML."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {name: json.dumps(file, indent=1, sort_keys=True) for name, file in files.items()},
    }


def _pod(image: str, ports: dict[str, int]) -> Manifest:
    container = {
        "name": NAME,
        "image": image,
        "args": ["-config.file=/etc/tempo/tempo.yaml"],
        "ports": [{"name": n, "containerPort": p} for n, p in ports.items()],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
        "securityContext": containers.container_security(),
        "volumeMounts": [
            containers.mount("data", "/data"),
            containers.mount("tmp", "/tmp"),  # noqa: S108 - the pod's own
            containers.mount("configuration", "/etc/tempo", read_only=True),
        ],
    } | containers.resources("100m", "512Mi", most_memory="2Gi")
    return containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "securityContext": containers.pod_security(USER, USER),
        "containers": [container],
        "volumes": [
            {"name": "configuration", "configMap": {"name": NAME}},
            containers.scratch("tmp", "1Gi"),
        ],
    }
