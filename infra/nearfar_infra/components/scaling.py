"""KEDA: more or fewer vLLM servers by what is asked for at the edge and what waits in vLLM."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra.manifests import scaling
from nearfar_infra.objects import declare
from nearfar_infra.releases import release
from nearfar_infra.settings import ServingSettings
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class ScalingArgs:
    """`namespace` is KEDA's own; the Deployment that is scaled lies in `serving_namespace`."""

    namespace: pulumi.Input[str]
    serving_namespace: pulumi.Input[str]
    sources: Sources
    serving: ServingSettings
    deployment: pulumi.Input[str]
    prometheus_url: pulumi.Input[str]


class Scaling(pulumi.ComponentResource):
    """Has no outputs that anything needs."""

    def __init__(self, name: str, args: ScalingArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Scaling", name, {}, opts)
        keda = release(
            "keda",
            args.sources.chart("keda"),
            args.namespace,
            scaling.values(args.sources),
            ResourceOptions(parent=self),
        )
        manifest = scaling.scaled_object(
            args.serving_namespace, args.deployment, args.prometheus_url, args.serving
        )
        declare(f"{name}-vllm", manifest, ResourceOptions(parent=self, depends_on=[keda]))
        self.register_outputs({})
