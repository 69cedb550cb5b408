"""NVIDIA's GPU operator, and the check that a node of the GPU pool advertises its GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra.manifests import gpu
from nearfar_infra.manifests.registries import mirror_host
from nearfar_infra.manifests.start_up import timeout
from nearfar_infra.objects import declare
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
) -> Any:
    """The Job with its account; it ends well when a node advertises a GPU."""
    own = ResourceOptions(parent=parent)
    account, role, binding = gpu.access(args.namespace)
    image = args.sources.image("python").reference
    called = gpu.version(image, chart)
    program = gpu.config_map(args.namespace, called)
    parts = {"account": account, "role": role, "binding": binding, "program": program}
    needed = [declare(f"{name}-{part}", manifest, own) for part, manifest in parts.items()]
    manifest = gpu.check(args.namespace, image, called, 1)
    manifest["metadata"]["annotations"] = {
        "nearfar.dev/pool": pulumi.Output.from_input(args.pool).apply(str)
    }
    patience = timeout(gpu.ADVERTISED_WITHIN_S + 420)
    waits = pulumi.CustomTimeouts(create=patience, update=patience)
    after = [operator, *needed]
    return declare(
        name, manifest, ResourceOptions(parent=parent, depends_on=after, custom_timeouts=waits)
    )
