"""What stands before the cluster: the NodeBalancer, its firewall and its name.

LKE's controller holds a token for its own cluster alone: a NodeBalancer or a firewall that was made
elsewhere answers it 403 (issue 392 of the cloud controller manager, pull request 9 of the firewall
controller). So both are asked for by annotations of a Service, and go with it.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_linode as linode
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.objects import declare
from nearfar_infra.settings import FrontSettings

ANNOTATION = "service.beta.kubernetes.io/linode-loadbalancer-"
EVERYWHERE = ("0.0.0.0/0", "::/0")
# New connections a second from one address; an edge holds few and long ones. 20 is the most.
THROTTLE = 20


@dataclass(frozen=True, slots=True)
class FrontArgs:
    """`ingress_ready` is only waited for: a Service without pods is never ready."""

    namespace: pulumi.Input[str]
    label: str
    settings: FrontSettings
    target: dict[str, str]
    target_port: str
    ingress_ready: pulumi.Resource


class Front(pulumi.ComponentResource):
    """`host` is the name that the certificate is for: the domain, or the NodeBalancer's own."""

    host: pulumi.Output[str]
    address: pulumi.Output[str]

    def __init__(self, name: str, args: FrontArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Front", name, {}, opts)
        service = declare(
            name,
            balancer(name, args),
            ResourceOptions(parent=self, depends_on=[args.ingress_ready]),
        )
        entry = service.status.load_balancer.ingress[0]
        self.address = entry.ip
        self.host = entry.hostname
        if args.settings.domain is not None:
            record = _record(f"{name}-name", args.settings, entry.ip, ResourceOptions(parent=self))
            self.host = pulumi.Output.all(args.settings.domain, record.id).apply(
                lambda known: str(known[0])
            )
        self.register_outputs({})


def balancer(name: str, args: FrontArgs) -> dict[str, Any]:
    """The Service that the provider's controller makes a NodeBalancer for."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": args.namespace,
            "labels": names.labels("front"),
            "annotations": asked_for(args.label, args.settings),
        },
        "spec": {
            "type": "LoadBalancer",
            # The source's address survives, and only nodes with a pod are asked.
            "externalTrafficPolicy": "Local",
            "selector": args.target,
            "ports": [{"name": "https", "port": 443, "targetPort": args.target_port}],
        },
    }


def asked_for(label: str, settings: FrontSettings) -> dict[str, str]:
    """What the NodeBalancer and its firewall shall be; the firewall drops what is not listed."""
    allowed = [ipaddress.ip_network(item) for item in settings.allowed_sources or EVERYWHERE]
    listed = {
        f"ipv{version}": [str(network) for network in allowed if network.version == version]
        for version in (4, 6)
    }
    found = {
        "firewall-acl": json.dumps(
            {"allowList": {kind: ips for kind, ips in listed.items() if ips}}
        ),
        "default-protocol": "tcp",
        "default-proxy-protocol": "v2",
        "throttle": str(THROTTLE),
        "tags": f"{names.PROJECT},{label}",
    }
    return {ANNOTATION + key: value for key, value in found.items()}


def _record(
    name: str, settings: FrontSettings, address: pulumi.Output[str], opts: ResourceOptions
) -> linode.DomainRecord:
    """The domain's address in Linode DNS; its certificate is proved there too."""
    zone, domain = str(settings.dns_zone), str(settings.domain)
    found = linode.get_domain_output(
        domain=zone, opts=pulumi.InvokeOutputOptions(parent=opts.parent)
    )
    return linode.DomainRecord(
        name,
        domain_id=found.id,
        name=domain.removesuffix(zone).removesuffix("."),
        record_type="A",
        target=address,
        ttl_sec=300,
        opts=opts,
    )
