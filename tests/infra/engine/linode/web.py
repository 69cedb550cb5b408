"""Linode's HTTP API over the account, as far as it is asked: lists, reading only."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from .account import State
from .plain import address

Item = dict[str, Any]


def instance(node: str) -> int:
    """The id of the machine behind a node."""
    return zlib.crc32(node.encode())


def answer(path: str, state: State) -> Item | None:
    """The whole list under a path, as one page; None where there is no such path."""
    for pattern, found in _PATHS.items():
        match = re.fullmatch(pattern, path)
        if match:
            items = list(found(state, *match.groups()))
            return {"data": items, "page": 1, "pages": 1, "results": len(items)}
    return None


def _clusters(state: State) -> Iterator[Item]:
    for number, cluster in state.of("LkeCluster").items():
        names = ("label", "region", "tags")
        yield {"id": int(number), "k8s_version": cluster["k8sVersion"], "status": "ready"} | {
            name: cluster.get(name) for name in names
        }


def _pools(state: State, cluster: str) -> Iterator[Item]:
    for number, pool in state.of("LkeNodePool").items():
        if pool["cluster"] == cluster:
            nodes = [
                {"id": name, "instance_id": instance(name), "status": "ready"}
                for name in pool["nodes"]
            ]
            yield {"id": int(number), "type": pool["type"], "tags": pool["tags"], "nodes": nodes}


def _balancers(state: State) -> Iterator[Item]:
    for number, thing in state.of("NodeBalancer").items():
        cluster = thing.get("lke_cluster")
        yield address(number) | {
            "id": int(number),
            "label": thing["label"],
            "tags": thing.get("tags", []),
            "lke_cluster": cluster and {"id": int(cluster), "type": "lkecluster"},
        }


def _volumes(state: State) -> Iterator[Item]:
    for number, thing in state.of("Volume").items():
        size = int(re.sub(r"\D", "", thing["size"]))
        yield {"id": int(number), "label": thing["label"], "size": size, "tags": []}


def _firewalls(state: State) -> Iterator[Item]:
    for number, thing in state.of("Firewall").items():
        rules = {"inbound_policy": thing.get("inboundPolicy", "ACCEPT")}
        tags = thing.get("tags", [])
        kept = {"id": int(number), "label": thing["label"], "status": "enabled", "tags": tags}
        yield kept | {"rules": rules, "devices": thing.get("devices", [])}


def _guarding(kind: str) -> Callable[..., Iterator[Item]]:
    def found(state: State, number: str) -> Iterator[Item]:
        for firewall in _firewalls(state):
            if [kind, int(number)] in firewall["devices"]:
                yield firewall

    return found


_PATHS: dict[str, Callable[..., Iterator[Item]]] = {
    "/lke/clusters": _clusters,
    r"/lke/clusters/(\d+)/pools": _pools,
    "/nodebalancers": _balancers,
    r"/nodebalancers/(\d+)/firewalls": _guarding("nodebalancer"),
    r"/linode/instances/(\d+)/firewalls": _guarding("linode"),
    "/networking/firewalls": _firewalls,
    "/volumes": _volumes,
}
