"""The worker nodes' firewall, by the provider's controller inside the cluster.

LKE takes a pool's `firewall_id` and attaches nothing on its standard tier (issue 2294 of Linode's
Terraform provider), so the controller that Linode keeps for this does it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource

from nearfar_infra import names
from nearfar_infra.releases import release
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class NodeFirewallArgs:
    sources: Sources


class NodeFirewall(pulumi.ComponentResource):
    """The controller makes a firewall `lke-<cluster id>` and keeps every node in it.

    Its rules let in what LKE itself needs from private addresses, and nothing from outside. The
    rules object is ours and not the chart's: it has to go before the controller, which takes the
    firewall away only while it runs.
    """

    firewall: pulumi.Output[str]

    def __init__(
        self, name: str, args: NodeFirewallArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:NodeFirewall", name, {}, opts)
        sources = args.sources
        kinds = release(
            "cloud-firewall-crd",
            sources.chart("cloud-firewall-crd"),
            names.KUBE_SYSTEM,
            {},
            ResourceOptions(parent=self),
        )
        image = sources.image("cloud-firewall-controller")
        controller = release(
            "cloud-firewall",
            sources.chart("cloud-firewall-controller"),
            names.KUBE_SYSTEM,
            {
                "image": {
                    "repository": f"{image.registry}/{image.repository}",
                    "tag": image.pinned_tag,
                },
                "nodeSelector": names.on_pool(names.CPU_POOL),
            },
            ResourceOptions(parent=self, depends_on=[kinds]),
        )
        rules = CustomResource(
            f"{name}-rules",
            api_version="networking.linode.com/alpha1v1",
            kind="CloudFirewall",
            metadata={
                "name": "primary",
                "namespace": names.KUBE_SYSTEM,
                "labels": names.labels("node-firewall"),
            },
            spec={"defaultRules": True, "ruleset": {"inbound": [], "outbound": []}},
            opts=ResourceOptions(parent=self, depends_on=[controller]),
        )
        self.firewall = rules.id
        self.register_outputs({})
