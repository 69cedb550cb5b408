"""Whether one pod may reach another, or an address, by the NetworkPolicies of a deployment.

As Kubernetes has it (API reference, NetworkPolicySpec): policies that select a pod and name a
direction deny what none of them allows there; a connection needs both ends' consent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outside:
    address: str


def may(
    policies: Iterable[Policy], source: Pod | Outside, target: Pod | Outside, port: int | str
) -> bool:
    """Whether `source` may open a connection to a port of `target`; "53/UDP" names a protocol."""
    known = list(policies)
    out = not isinstance(source, Pod) or _allows(known, source, "Egress", target, port)
    into = not isinstance(target, Pod) or _allows(known, target, "Ingress", source, port)
    return out and into


def _allows(
    policies: list[Policy], pod: Pod, direction: str, other: Pod | Outside, port: int | str
) -> bool:
    verb, side = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    mine = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction in policy["spec"]["policyTypes"]
        and _selects(policy["spec"]["podSelector"], pod.labels)
    ]
    if not mine:
        return True
    rules = [rule for spec in mine for rule in spec.get(verb, ())]
    return any(_peers(rule.get(side), other) and _ports(rule.get("ports"), port) for rule in rules)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}, selector
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _peers(peers: list[Mapping[str, Any]] | None, other: Pod | Outside) -> bool:
    return peers is None or any(_is_peer(peer, other) for peer in peers)


def _is_peer(peer: Mapping[str, Any], other: Pod | Outside) -> bool:
    if isinstance(other, Outside):
        block = peer.get("ipBlock")
        address = ipaddress.ip_address(other.address)
        return block is not None and (
            address in ipaddress.ip_network(block["cidr"])
            and not any(address in ipaddress.ip_network(cidr) for cidr in block.get("except", ()))
        )
    if "namespaceSelector" not in peer:
        # A block of all addresses holds the pods' too; nothing of ours relies on that.
        return False
    named = peer["namespaceSelector"]["matchLabels"]
    assert {"kubernetes.io/metadata.name"} == set(named), named
    same = named["kubernetes.io/metadata.name"] == other.namespace
    return same and _selects(peer.get("podSelector", {}), other.labels)


def _ports(ports: list[Mapping[str, Any]] | None, port: int | str) -> bool:
    number, _, protocol = str(port).partition("/")
    wanted = (int(number), protocol or "TCP")
    return ports is None or wanted in [(int(one["port"]), one["protocol"]) for one in ports]
