"""What stands before the cluster: the NodeBalancer, its firewall and its name."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.settings import FrontSettings


@dataclass(frozen=True, slots=True)
class FrontArgs:
    label: str
    region: str
    cluster_id: pulumi.Input[str]
    settings: FrontSettings


class Front(pulumi.ComponentResource):
    """`host` is the name that the certificate is for: the domain, or the NodeBalancer's own."""

    host: pulumi.Output[str]
    nodebalancer_id: pulumi.Output[str]
    firewall_id: pulumi.Output[str]
