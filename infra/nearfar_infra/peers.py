"""Who may talk to whom, as values: the far ends of a rule and the rule itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nearfar_infra import names

Direction = Literal["in", "out"]

PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of a namespace, all of them or those with these labels."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_peer(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": self.namespace},
            },
        }
        return found | ({"podSelector": {"matchLabels": dict(self.labels)}} if self.labels else {})


@dataclass(frozen=True, slots=True)
class Network:
    """Addresses, but for those that are left out."""

    cidr: str
    but: tuple[str, ...] = ()

    def as_peer(self) -> dict[str, Any]:
        left_out = {"except": list(self.but)} if self.but else {}
        return {"ipBlock": {"cidr": self.cidr, **left_out}}


# The internet, and nothing of the provider's private networks.
WORLD = Network("0.0.0.0/0", PRIVATE)
# LKE's control plane has an address that differs by cluster and is not told beforehand.
API_SERVER = Network("0.0.0.0/0")
# What the nodes of a region talk from (the default rules of Linode's cloud firewall controller).
NODES = Network("192.168.128.0/17")
NODEBALANCERS = Network("192.168.255.0/24")
DNS = Pods(names.KUBE_SYSTEM, {"k8s-app": "kube-dns"})


@dataclass(frozen=True, slots=True)
class Allow:
    """One named exception to the default deny of a namespace.

    `pods` are its own pods' labels, none: all of them. `ports` are TCP unless they say UDP, none:
    all ports. `why` is for people, and becomes an annotation.
    """

    name: str
    namespace: str
    direction: Direction
    peer: Pods | Network
    ports: tuple[int | str, ...]
    why: str
    pods: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        """The NetworkPolicy's spec."""
        side, kind, verb = ("from", "Ingress", "ingress") if self.direction == "in" else _OUT
        rule: dict[str, Any] = {side: [self.peer.as_peer()]}
        if self.ports:
            rule["ports"] = [_port(port) for port in self.ports]
        return {
            "podSelector": {"matchLabels": dict(self.pods)} if self.pods else {},
            "policyTypes": [kind],
            verb: [rule],
        }


_OUT = ("to", "Egress", "egress")


def _port(port: int | str) -> dict[str, Any]:
    """8000 is TCP, "53/UDP" says what it is."""
    number, _, protocol = str(port).partition("/")
    return {"protocol": protocol or "TCP", "port": int(number)}
