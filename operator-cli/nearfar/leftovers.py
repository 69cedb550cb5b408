"""What a cluster left behind in the account, and what it goes on to cost.

A NodeBalancer names its cluster; a firewall and a node do so by their label; a volume says by its
node, or by its tags, where it belongs. A volume that says nothing is told as such, never as ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nearfar.linode import Linode
from nearfar_infra import prices

Kind = Literal["cluster", "node", "nodebalancer", "volume", "firewall"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that is looked for: its label, and its id where that is known."""

    label: str
    id: str = ""

    def names(self, word: str) -> bool:
        """Whether a label or a tag is one that this cluster's parts carry."""
        return word == self.label or (bool(self.id) and _is_of(word, self.id))


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that is still there; `sure` says whether it is this cluster's for certain."""

    kind: Kind
    id: int
    label: str
    why: str
    monthly: float
    sure: bool = True


def find(api: Linode, cluster: Cluster) -> list[Leftover]:
    """Return everything that still carries the cluster's label or id."""
    clusters = list(_clusters(api, cluster))
    # Where the label still finds a cluster, its id finds the rest.
    known = Cluster(cluster.label, cluster.id or (str(clusters[0].id) if clusters else ""))
    return [
        *clusters,
        *_nodes(api, known),
        *_nodebalancers(api, known),
        *_volumes(api, known),
        *_firewalls(api, known),
    ]


def _clusters(api: Linode, cluster: Cluster) -> Iterator[Leftover]:
    for entry in api.all("/lke/clusters"):
        if entry["label"] == cluster.label or str(entry["id"]) == cluster.id:
            highly = (entry.get("control_plane") or {}).get("high_availability")
            price = prices.others()["control-plane-ha" if highly else "control-plane"]
            yield Leftover("cluster", entry["id"], entry["label"], "its label", price.monthly)


def _nodes(api: Linode, cluster: Cluster) -> Iterator[Leftover]:
    for entry in api.all("/linode/instances"):
        of = str(entry.get("lke_cluster_id") or "")
        if (cluster.id and of == cluster.id) or _tagged(entry, cluster):
            price = prices.plans().get(str(entry.get("type")))
            monthly = price.monthly if price else 0.0
            yield Leftover("node", entry["id"], entry["label"], "its cluster", monthly)


def _nodebalancers(api: Linode, cluster: Cluster) -> Iterator[Leftover]:
    monthly = prices.others()["nodebalancer"].monthly
    for entry in api.all("/nodebalancers"):
        of = entry.get("lke_cluster") or {}
        named = of.get("label") == cluster.label or str(of.get("id", "")) == (cluster.id or "-")
        if named or _tagged(entry, cluster):
            why = "its cluster" if named else "its tags"
            yield Leftover("nodebalancer", entry["id"], entry["label"], why, monthly)


def _volumes(api: Linode, cluster: Cluster) -> Iterator[Leftover]:
    a_gib = prices.others()["volume"].monthly
    for entry in api.all("/volumes"):
        monthly = a_gib * int(entry["size"])
        node = str(entry.get("linode_label") or "")
        if _tagged(entry, cluster) or (cluster.id and _is_of(node, cluster.id)):
            yield Leftover("volume", entry["id"], entry["label"], "its node or tags", monthly)
        elif not node and str(entry["label"]).startswith("pvc"):
            why = "a claim's, attached to nothing: it may be of any cluster"
            yield Leftover("volume", entry["id"], entry["label"], why, monthly, sure=False)


def _firewalls(api: Linode, cluster: Cluster) -> Iterator[Leftover]:
    monthly = prices.others()["firewall"].monthly
    for entry in api.all("/networking/firewalls"):
        of = [str(item.get("label") or "") for item in entry.get("entities") or ()]
        ours = cluster.names(str(entry["label"])) or _tagged(entry, cluster)
        guards = bool(cluster.id) and any(_is_of(label, cluster.id) for label in of)
        if ours or guards:
            why = "its label or tags" if ours else "what it guards"
            yield Leftover("firewall", entry["id"], entry["label"], why, monthly)


def _tagged(entry: dict[str, Any], cluster: Cluster) -> bool:
    return any(cluster.names(str(tag)) for tag in entry.get("tags") or ())


def _is_of(label: str, cluster_id: str) -> bool:
    """LKE calls a node lke<cluster>-<pool>-<number>; the firewall controller says lke-<cluster>."""
    name = f"lke{cluster_id}"
    return label in (name, f"lke-{cluster_id}") or label.startswith(f"{name}-")
