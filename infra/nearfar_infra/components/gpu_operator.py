"""NVIDIA's GPU operator, and the check that a node of the GPU pool advertises its GPU."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

from nearfar_infra.manifests import gpu
from nearfar_infra.manifests.registries import mirror_host
from nearfar_infra.manifests.start_up import timeout
from nearfar_infra.releases import release
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class GpuOperatorArgs:
    """`pool` is the GPU pool's id: nothing can be advertised before it is there."""

    namespace: pulumi.Input[str]
    sources: Sources
    pool: pulumi.Input[str]


class GpuOperator(pulumi.ComponentResource):
    """`ready` is known once a node advertises nvidia.com/gpu; what needs a GPU depends on it."""

    ready: pulumi.Output[str]

    def __init__(
        self, name: str, args: GpuOperatorArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:GpuOperator", name, {}, opts)
        chart = args.sources.chart("gpu-operator")
        operator = release(
            "gpu-operator",
            chart,
            args.namespace,
            gpu.values(mirror_host(args.sources.mirror)),
            ResourceOptions(parent=self),
            timeout_s=900,
        )
        checked = _check(f"{name}-check", args, chart.version, self, operator)
        self.ready = pulumi.Output.all(checked.id, args.pool).apply(lambda known: str(known[0]))
        self.register_outputs({"ready": self.ready})


def _check(
    name: str,
    args: GpuOperatorArgs,
    chart: str,
    parent: pulumi.Resource,
    operator: pulumi.Resource,
) -> k8s.batch.v1.Job:
    """The Job with its account; it ends well when a node advertises a GPU."""
    own = ResourceOptions(parent=parent)
    account, role, binding = gpu.access(args.namespace)
    image = args.sources.image("python").reference
    called = gpu.version(image, chart)
    program = gpu.config_map(args.namespace, called)
    needed: list[pulumi.Resource] = [
        operator,
        k8s.core.v1.ServiceAccount(f"{name}-account", metadata=account["metadata"], opts=own),
        k8s.rbac.v1.ClusterRole(
            f"{name}-role", metadata=role["metadata"], rules=role["rules"], opts=own
        ),
        k8s.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata=binding["metadata"],
            role_ref=binding["roleRef"],
            subjects=binding["subjects"],
            opts=own,
        ),
        k8s.core.v1.ConfigMap(
            f"{name}-program",
            metadata=program["metadata"],
            data=program["data"],
            immutable=True,
            opts=own,
        ),
    ]
    manifest = gpu.check(args.namespace, image, called, 1)
    patience = timeout(gpu.ADVERTISED_WITHIN_S + 420)
    manifest["metadata"]["annotations"] = {
        "nearfar.dev/pool": pulumi.Output.from_input(args.pool).apply(str)
    }
    return k8s.batch.v1.Job(
        name,
        metadata=manifest["metadata"],
        spec=manifest["spec"],
        opts=ResourceOptions(
            parent=parent,
            depends_on=needed,
            custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        ),
    )
