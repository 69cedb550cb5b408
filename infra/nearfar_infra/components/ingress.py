"""Traefik: TLS, limits by source, and a route for each flow of the table and for nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.flows import Flow
from nearfar_infra.settings import FrontSettings
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class IngressArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    settings: FrontSettings
    flows: tuple[Flow, ...]
    host: pulumi.Input[str]
    nodebalancer_id: pulumi.Input[str]
    firewall_id: pulumi.Input[str]
    storage_class: str


class Ingress(pulumi.ComponentResource):
    """`url` is the GPU half's address, https only."""

    url: pulumi.Output[str]
