"""From a manifest as a plain dictionary to a resource of the engine, with the right waiting.

Manifests stay plain so that tests can hold each against the API's schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource

# (apiVersion, kind) → the class whose `await` logic knows when one is ready.
_CLASSES: dict[tuple[str, str], Any] = {
    ("v1", "ConfigMap"): k8s.core.v1.ConfigMap,
    ("v1", "Namespace"): k8s.core.v1.Namespace,
    ("v1", "PersistentVolumeClaim"): k8s.core.v1.PersistentVolumeClaim,
    ("v1", "Secret"): k8s.core.v1.Secret,
    ("v1", "Service"): k8s.core.v1.Service,
    ("v1", "ServiceAccount"): k8s.core.v1.ServiceAccount,
    ("apps/v1", "DaemonSet"): k8s.apps.v1.DaemonSet,
    ("apps/v1", "Deployment"): k8s.apps.v1.Deployment,
    ("apps/v1", "StatefulSet"): k8s.apps.v1.StatefulSet,
    ("batch/v1", "Job"): k8s.batch.v1.Job,
    ("networking.k8s.io/v1", "NetworkPolicy"): k8s.networking.v1.NetworkPolicy,
    ("policy/v1", "PodDisruptionBudget"): k8s.policy.v1.PodDisruptionBudget,
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): k8s.rbac.v1.ClusterRole,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): k8s.rbac.v1.ClusterRoleBinding,
    ("rbac.authorization.k8s.io/v1", "Role"): k8s.rbac.v1.Role,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): k8s.rbac.v1.RoleBinding,
    ("scheduling.k8s.io/v1", "PriorityClass"): k8s.scheduling.v1.PriorityClass,
}
# Fields of an object that the SDK writes in its own way.
_RENAMED = {
    "stringData": "string_data",
    "binaryData": "binary_data",
    "roleRef": "role_ref",
    "globalDefault": "global_default",
    "preemptionPolicy": "preemption_policy",
    "automountServiceAccountToken": "automount_service_account_token",
}


def declare(name: str, manifest: Mapping[str, Any], opts: ResourceOptions) -> Any:
    """Declare one object; a kind that is not Kubernetes' own becomes a CustomResource."""
    kind = (manifest["apiVersion"], manifest["kind"])
    fields = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    made, opts = _CLASSES.get(kind), ResourceOptions.merge(opts, _named_by_content(manifest))
    if made is None:
        return CustomResource(name, api_version=kind[0], kind=kind[1], opts=opts, **fields)
    return made(name, opts=opts, **{_RENAMED.get(key, key): value for key, value in fields.items()})


def _named_by_content(manifest: Mapping[str, Any]) -> ResourceOptions:
    """What is named by a hash of its content comes back to an old name when a change is taken back.

    If the change failed before the old one was deleted, that deletion is still to be done, and
    would hit the new one of the same name. So a Job goes before its replacement comes, and an
    unchangeable map, which running pods still mount, stays until its namespace goes.
    """
    if manifest["kind"] == "Job":
        return ResourceOptions(delete_before_replace=True)
    if manifest["kind"] == "ConfigMap" and manifest.get("immutable"):
        return ResourceOptions(retain_on_delete=True)
    return ResourceOptions()


def named(resource: Any) -> pulumi.Output[str]:
    """The name of a declared object, known once it is ready."""
    name: pulumi.Output[str] = resource.metadata["name"]
    return name
