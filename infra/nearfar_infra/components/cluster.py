"""The LKE cluster: control plane, CPU pool, GPU pool, and the way in for everything after it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from nearfar_infra.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class ClusterArgs:
    settings: ClusterSettings


class Cluster(pulumi.ComponentResource):
    """`provider` is the only way to the API server; `kubeconfig` is text, not base64 (secret)."""

    cluster_id: pulumi.Output[str]
    gpu_pool_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    provider: k8s.Provider
