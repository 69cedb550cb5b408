"""vLLM on the GPU pool, with what fetches its weights and what guards it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.plans import Plan
from nearfar_infra.settings import ServingSettings
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """`redis_url` is the gate's; `otlp_endpoint` None: no traces; `gpu_ready` is waited for."""

    namespace: pulumi.Input[str]
    sources: Sources
    serving: ServingSettings
    plan: Plan
    upstream_key: pulumi.Input[str]
    gate_secret: pulumi.Input[str]
    redis_url: pulumi.Input[str]
    otlp_endpoint: pulumi.Input[str] | None
    gpu_ready: pulumi.Input[str]


class Engine(pulumi.ComponentResource):
    """Serves under flows.MODEL_SERVICE, router and gate included; `ready` once a pod is ready."""

    deployment: pulumi.Output[str]
    ready: pulumi.Output[str]
