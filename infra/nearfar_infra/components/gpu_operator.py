"""NVIDIA's GPU operator, and the check that a node of the GPU pool advertises its GPU."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

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
