"""The LKE cluster: control plane, CPU pool, GPU pool, and the way in for everything after it."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
import pulumi_linode as linode
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.settings import ClusterSettings


@dataclass(frozen=True, slots=True)
class ClusterArgs:
    settings: ClusterSettings


class Cluster(pulumi.ComponentResource):
    """`provider` is the only way to the API server; `kubeconfig` is text, not base64 (secret).

    LKE wants one pool when a cluster is made: that is the CPU pool. The GPU pool is a resource of
    its own, which the cluster leaves alone by its tag. docs/decisions/0027 says why.
    """

    cluster_id: pulumi.Output[str]
    gpu_pool_id: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    provider: k8s.Provider

    def __init__(self, name: str, args: ClusterArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Cluster", name, {}, opts)
        wanted = args.settings
        made = linode.LkeCluster(
            name,
            label=wanted.label,
            region=wanted.region,
            k8s_version=wanted.version,
            control_plane=_control_plane(wanted),
            pools=[_cpu_pool(wanted)],
            external_pool_tags=[names.EXTERNAL_POOL_TAG],
            tags=[names.PROJECT],
            # The autoscaler decides how many nodes there are, within its bounds.
            opts=ResourceOptions(parent=self, ignore_changes=["pools[0].count"]),
        )
        pool = _gpu_pool(f"{name}-gpu", wanted, made, ResourceOptions(parent=self))
        self.cluster_id = made.id
        self.gpu_pool_id = pool.id
        self.kubeconfig = pulumi.Output.secret(made.kubeconfig.apply(decoded))
        self.provider = k8s.Provider(
            f"{name}-api",
            kubeconfig=self.kubeconfig,
            # Another kubeconfig for the same cluster is no other cluster.
            cluster_identifier=made.id,
            enable_server_side_apply=True,
            # Pods wait for nodes and nodes' labels: nothing is put in before the pools are there.
            opts=ResourceOptions(parent=self, depends_on=[pool]),
        )
        self.register_outputs({})


def decoded(kubeconfig: str) -> str:
    """LKE hands out the kubeconfig in base64."""
    return base64.b64decode(kubeconfig).decode()


def _control_plane(wanted: ClusterSettings) -> linode.LkeClusterControlPlaneArgs:
    networks = [ipaddress.ip_network(item) for item in wanted.api_allowed]
    return linode.LkeClusterControlPlaneArgs(
        high_availability=wanted.high_availability,
        acl=linode.LkeClusterControlPlaneAclArgs(
            enabled=True,
            addresses=[
                linode.LkeClusterControlPlaneAclAddressArgs(
                    ipv4s=[str(network) for network in networks if network.version == 4],
                    ipv6s=[str(network) for network in networks if network.version == 6],
                )
            ],
        ),
    )


def _cpu_pool(wanted: ClusterSettings) -> linode.LkeClusterPoolArgs:
    return linode.LkeClusterPoolArgs(
        type=wanted.cpu.plan.key,
        count=wanted.cpu.least,
        autoscaler=linode.LkeClusterPoolAutoscalerArgs(min=wanted.cpu.least, max=wanted.cpu.most),
        label=names.CPU_POOL,
        labels=names.on_pool(names.CPU_POOL),
    )


def _gpu_pool(
    name: str, wanted: ClusterSettings, cluster: linode.LkeCluster, opts: ResourceOptions
) -> linode.LkeNodePool:
    """Labels and taint are the pool's, so a recycled node has them again."""
    return linode.LkeNodePool(
        name,
        cluster_id=cluster.id.apply(int),
        type=wanted.gpu.plan.key,
        node_count=wanted.gpu.least,
        autoscaler=linode.LkeNodePoolAutoscalerArgs(min=wanted.gpu.least, max=wanted.gpu.most),
        label=names.GPU_POOL,
        labels=names.on_pool(names.GPU_POOL),
        taints=[linode.LkeNodePoolTaintArgs(**names.GPU_TAINT)],
        tags=[names.PROJECT, names.EXTERNAL_POOL_TAG],
        opts=ResourceOptions.merge(opts, ResourceOptions(ignore_changes=["nodeCount"])),
    )
