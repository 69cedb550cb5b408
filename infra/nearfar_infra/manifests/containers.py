"""What every container of ours has in common: no privilege, a read-only root, named mounts."""

from __future__ import annotations

from collections.abc import Mapping

from nearfar_infra.manifests import Manifest

# The images of vLLM carry this user, whose group is root's as OpenShift has it. Others take it too.
USER, GROUP = 2000, 0


def pod_security(user: int = USER, group: int = GROUP) -> Manifest:
    """The security context of a pod; its volumes belong to the group."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": group,
        "fsGroup": group or USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Manifest:
    """The security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def pod_basics() -> Manifest:
    """Fields of a pod that the defaults get wrong for us.

    Service links would set a variable for each Service of the namespace: one called "vllm" sets
    VLLM_PORT, which vLLM reads as its own.
    """
    return {"enableServiceLinks": False, "automountServiceAccountToken": False}


def env(plain: Mapping[str, str], secret: Mapping[str, tuple[str, str]] | None = None) -> Manifest:
    """Variables as a container lists them; `secret` is name → (Secret, key)."""
    found: list[Manifest] = [{"name": name, "value": value} for name, value in plain.items()]
    for name, (of, key) in (secret or {}).items():
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": of, "key": key}}})
    return {"env": sorted(found, key=lambda entry: str(entry["name"]))}


def resources(cpu: str, memory: str, *, gpus: int = 0, most_memory: str | None = None) -> Manifest:
    """Requests and limits. Processor time has no limit: a burst may use what nobody else does."""
    limits: dict[str, str] = {"memory": most_memory or memory}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}}


def mount(name: str, path: str, *, sub: str | None = None, read_only: bool = False) -> Manifest:
    """One volume in a container."""
    found: Manifest = {"name": name, "mountPath": path}
    if sub is not None:
        found["subPath"] = sub
    if read_only:
        found["readOnly"] = True
    return found


def scratch(name: str, size: str, *, memory: bool = False) -> Manifest:
    """A folder that lives as long as the pod; `memory` makes it part of the pod's memory."""
    if memory:
        return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return {"name": name, "emptyDir": {"sizeLimit": size}}
