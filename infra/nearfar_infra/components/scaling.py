"""KEDA: more or fewer vLLM servers by what is asked for at the edge and what waits in vLLM."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

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
