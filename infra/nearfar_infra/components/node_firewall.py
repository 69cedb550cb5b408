"""The worker nodes' firewall, by the provider's controller inside the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class NodeFirewallArgs:
    sources: Sources


class NodeFirewall(pulumi.ComponentResource):
    """The controller makes a firewall `lke-<cluster id>` and keeps every node in it."""
