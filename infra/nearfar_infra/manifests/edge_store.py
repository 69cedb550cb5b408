"""The store beside an edge in the cluster: a small Redis that keeps keys, revocations and answers.

It is near the edge on purpose, and none of the gates' Redis: this one may evict, that one may not.
"""

from __future__ import annotations

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest
from nearfar_infra.manifests.containers import (
    container_security,
    mount,
    pod_basics,
    pod_security,
    resources,
    scratch,
)

NAME = "edge-store"
# The only user there is; it may not administer.
USER = "edge"
# Linode's smallest volume.
VOLUME_GIB = 10


def config(password: str) -> str:
    """redis.conf; `volatile-ttl` evicts what ends soonest, so revocations go last."""
    return "\n".join(
        (
            "dir /data",
            "maxmemory 400mb",
            "maxmemory-policy volatile-ttl",
            "appendonly yes",
            "user default off",
            f"user {USER} on >{password} ~* +@all -@admin -@dangerous",
            "",
        )
    )


def url(namespace: str, password: str) -> str:
    """The setting `store` of an edge that this is the store of."""
    return f"redis://{USER}:{password}@{NAME}.{namespace}.svc.cluster.local:{flows.REDIS_PORT}/0"


def secret(namespace: str, password: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(namespace),
        "stringData": {"redis.conf": config(password)},
    }


def volume(namespace: str, storage_class: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        # It is bound when the pod that mounts it is scheduled, which is after this.
        "metadata": {
            **_metadata(namespace),
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": f"{VOLUME_GIB}Gi"}},
        },
    }


def service(namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(namespace),
        "spec": {
            "selector": names.selector(NAME),
            "ports": [{"name": "redis", "port": flows.REDIS_PORT, "targetPort": "redis"}],
        },
    }


def deployment(namespace: str, image: str) -> Manifest:
    container = {
        "name": "redis",
        "image": image,
        "command": ["redis-server", "/etc/redis/redis.conf"],
        "ports": [{"name": "redis", "containerPort": flows.REDIS_PORT}],
        "securityContext": container_security(),
        "readinessProbe": {"tcpSocket": {"port": "redis"}, "periodSeconds": 5},
        "livenessProbe": {"tcpSocket": {"port": "redis"}, "periodSeconds": 10},
        "volumeMounts": [
            mount("config", "/etc/redis", read_only=True),
            mount("data", "/data"),
            mount("tmp", "/tmp"),  # noqa: S108 - a volume of the pod
        ],
        **resources("50m", "512Mi"),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(namespace),
        "spec": {
            "replicas": 1,
            # Two at once would wait for each other: the volume belongs to one node.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": names.selector(NAME)},
            "template": {
                "metadata": {"labels": names.labels(NAME)},
                "spec": {
                    **pod_basics(),
                    "securityContext": pod_security(),
                    "nodeSelector": names.on_pool(names.CPU_POOL),
                    "containers": [container],
                    "volumes": [
                        {"name": "config", "secret": {"secretName": NAME}},
                        {"name": "data", "persistentVolumeClaim": {"claimName": NAME}},
                        scratch("tmp", "16Mi"),
                    ],
                },
            },
        },
    }


def _metadata(namespace: str) -> Manifest:
    return {"name": NAME, "namespace": namespace, "labels": names.labels(NAME)}
