"""Redis 8 for the gates: users limited to their keys, everything written down, nothing evicted.

docs/gate.md owns the keys. The policies are not written as two files that may differ: the
Deployment's hash of the configuration restarts the pod when either changes.
"""

from __future__ import annotations

import hashlib

import pulumi

from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, containers

NAME = flows.REDIS_SERVICE
PORT = flows.REDIS_PORT
SECRET = "redis-users"  # noqa: S105 - its name
# The image's own user.
USER = 999
# Windows, slots and usage of some thousand keys take a few MiB; the log is rewritten beside it.
MEMORY = "512Mi"
VOLUME_GIB = 10

CONFIG = f"""\
port {PORT}
protected-mode no
aclfile /etc/redis/users.acl
dir /data
appendonly yes
appendfsync everysec
save ""
maxmemory 300mb
maxmemory-policy noeviction
"""

# What gpu_backend.gate sends, and what its three scripts call; it reads revocations and no more.
_GATE = (
    "~nf:gate:1:* %R~nf:1:revoked -@all +evalsha +script|load +get +set +time +expire +pexpire"
    " +hget +hmget +hset +hsetnx +hdel +hincrby +zadd +zcard +zrange +zrangebyscore +zrem"
    " +ping +hello +auth +client|setinfo +client|setname +select"
)
# What reads usage and writes revocations on the operator's side (`nearfar usage`, `nearfar keys`).
_OPERATOR = (
    "%R~nf:gate:1:usage:* ~nf:1:revoked -@all +hgetall +get +set +watch +unwatch +multi +exec"
    " +ping +hello +auth +client|setinfo +client|setname +select"
)
_METRICS = "resetkeys -@all +ping +info +hello +auth +client|setinfo +client|setname"


def acl(gate: str, operator: str, metrics: str) -> str:
    """The file of users. Nobody is let in without a name and a password; these are hashed."""
    users = {
        "gate": (gate, _GATE),
        "operator": (operator, _OPERATOR),
        "metrics": (metrics, _METRICS),
    }
    lines = ["user default off resetpass resetkeys resetchannels -@all"]
    for name, (password, rights) in users.items():
        hashed = hashlib.sha256(password.encode()).hexdigest()
        lines.append(f"user {name} on resetchannels #{hashed} {rights}")
    return "\n".join(lines) + "\n"


def secret(
    namespace: pulumi.Input[str],
    users: pulumi.Output[str],
    metrics: pulumi.Input[str],
    operator: pulumi.Input[str],
) -> Manifest:
    """The file of users, the password of the pod's own probes, and the operator's to read here."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace, "labels": names.labels("redis")},
        "stringData": {
            "users.acl": users,
            "metrics": pulumi.Output.secret(metrics),
            "operator": pulumi.Output.secret(operator),
        },
    }


def config_map(namespace: pulumi.Input[str]) -> Manifest:
    """redis.conf."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace, "labels": names.labels("redis")},
        "data": {"redis.conf": CONFIG},
    }


def service(namespace: pulumi.Input[str]) -> Manifest:
    """The address of the one Redis; a cluster of them would split what a script decides on."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace, "labels": names.labels("redis")},
        "spec": {
            "selector": names.selector("redis"),
            "ports": [{"name": "redis", "port": PORT, "targetPort": "redis"}],
        },
    }


def stateful_set(
    namespace: pulumi.Input[str], image: str, storage_class: str, version: pulumi.Input[str]
) -> Manifest:
    """One server with a volume of its own. `version` changes with configuration and users."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": NAME, "namespace": namespace, "labels": names.labels("redis")},
        "spec": {
            "serviceName": NAME,
            "replicas": 1,
            "selector": {"matchLabels": names.selector("redis")},
            # The volume goes when the set does; the class says what becomes of the disk.
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Delete",
                "whenScaled": "Retain",
            },
            "template": {
                "metadata": {
                    "labels": names.labels("redis"),
                    "annotations": {"nearfar.dev/configuration": version},
                },
                "spec": _pod(image),
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data", "labels": names.selector("redis")},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": storage_class,
                        "resources": {"requests": {"storage": f"{VOLUME_GIB}Gi"}},
                    },
                }
            ],
        },
    }


def _pod(image: str) -> Manifest:
    return containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.CPU_POOL),
        "terminationGracePeriodSeconds": 60,
        "securityContext": containers.pod_security(USER, USER),
        "containers": [_server(image)],
        "volumes": [
            {
                "name": "configuration",
                "projected": {
                    "sources": [
                        {"configMap": {"name": NAME}},
                        {"secret": {"name": SECRET, "items": _USERS}},
                    ]
                },
            }
        ],
    }


_USERS = [{"key": "users.acl", "path": "users.acl"}]


def _server(image: str) -> Manifest:
    ping = ["sh", "-c", 'test "$(redis-cli --user metrics --no-auth-warning ping)" = PONG']
    probe = {"exec": {"command": ping}, "timeoutSeconds": 5}
    return (
        {
            "name": "redis",
            "image": image,
            "command": ["redis-server", "/etc/redis/redis.conf"],
            "ports": [{"name": "redis", "containerPort": PORT}],
            "startupProbe": probe | {"periodSeconds": 2, "failureThreshold": 60},
            "readinessProbe": probe | {"periodSeconds": 5},
            "livenessProbe": probe | {"periodSeconds": 15, "failureThreshold": 4},
            "securityContext": containers.container_security(),
            "volumeMounts": [
                containers.mount("data", "/data"),
                containers.mount("configuration", "/etc/redis", read_only=True),
            ],
        }
        | containers.env({}, {"REDISCLI_AUTH": (SECRET, "metrics")})
        | containers.resources("100m", MEMORY, most_memory=MEMORY)
    )
