"""Two resources that make nothing: one looks at the firewalls, one waits for the volumes."""

from __future__ import annotations

import pulumi
from pulumi import ResourceOptions

# A volume is detached and deleted in under a minute; the provider gives its own calls as long.
VOLUMES_S = 600
# The firewall controller looks at nodes every ten seconds at most.
FIREWALLS_S = 300


class VolumesGone(pulumi.CustomResource):
    """When all is destroyed, this holds the cluster back until its volumes are gone."""

    def __init__(
        self, name: str, kubeconfig: pulumi.Output[str], opts: ResourceOptions | None = None
    ) -> None:
        inputs = {"kubeconfig": kubeconfig, "seconds": VOLUMES_S}
        super().__init__("nearfar:index:VolumesGone", name, inputs, opts)


class FirewallsAttached(pulumi.CustomResource):
    """Fails the `up` while the NodeBalancer or a node is unguarded."""

    def __init__(
        self,
        name: str,
        *,
        api: str,
        token: pulumi.Input[str],
        cluster_id: pulumi.Input[str],
        address: pulumi.Input[str],
        watched: list[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "api": api,
            "token": token,
            "clusterId": cluster_id,
            "address": address,
            "watched": watched,
            "seconds": FIREWALLS_S,
        }
        super().__init__("nearfar:index:FirewallsAttached", name, inputs, opts)
