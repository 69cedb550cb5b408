"""LKE clusters and their pools, over the control plane that the tests started."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

from nearfar_infra.plans import PLANS
from nearfar_infra.plugin.kinds import UNKNOWN, KindError, Values

from .account import Account, State
from .nodes import Nodes
from .plain import Plain
from .web import instance

# What every new LKE cluster has; only the second deletes its volumes with their claims.
STORAGE_CLASSES = {"linode-block-storage-retain": "Retain", "linode-block-storage": "Delete"}
_SYSTEM = ("default", "kube-system", "kube-public", "kube-node-lease")


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server of the tests is, as a kubeconfig says it."""

    url: str
    token: str
    ca: str

    def kubeconfig(self) -> str:
        """The form that LKE hands out: YAML in base64."""
        ca = base64.b64encode(self.ca.encode()).decode()
        cluster = {"server": self.url, "certificate-authority-data": ca}
        context = {"cluster": "lke", "namespace": "default", "user": "lke-admin"}
        text = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "preferences": {},
                "clusters": [{"name": "lke", "cluster": cluster}],
                "users": [{"name": "lke-admin", "user": {"token": self.token}}],
                "contexts": [{"name": "lke-ctx", "context": context}],
                "current-context": "lke-ctx",
            }
        )
        return base64.b64encode(text.encode()).decode()


class Cluster(Plain):
    """linode.LkeCluster."""

    def __init__(self, token: str, account: Account, server: Server, nodes: Nodes) -> None:
        super().__init__(token, account)
        self._server, self._nodes = server, nodes

    def rules(self, news: Values) -> dict[str, str]:
        found = {}
        label = news["label"]
        if label != UNKNOWN and not 1 <= len(label) <= 32:
            found["label"] = "must have 1 to 32 characters"
        if not news.get("pools") and news.get("tier", "standard") == "standard":
            found["pools"] = "at least one pool is required for standard tier clusters"
        for index, pool in enumerate(news.get("pools") or []):
            if pool["type"] != UNKNOWN and pool["type"] not in PLANS:
                found[f"pools[{index}].type"] = f"there is no plan {pool['type']}"
        return found

    def made(self, state: State, number: str) -> None:
        cluster = state.of(self.kind)[number]
        self._nodes.furnish(STORAGE_CLASSES)
        given = cluster.pop("pools", [])
        owned = [n for n, p in _pools(state, number).items() if not self._external(cluster, p)]
        for old, pool in zip(owned, given, strict=False):
            _set_pool(state, old, number, pool, pool.get("count"))
        for pool in given[len(owned) :]:
            _set_pool(state, None, number, pool, pool.get("count"))
        for old in owned[len(given) :]:
            state.of("LkeNodePool").pop(old)
        self._nodes.match(state)

    def gone(self, state: State, number: str) -> None:
        """The API server's content dies with the cluster, whatever it stood for."""
        state.clusters_left += self._nodes.left(_SYSTEM)
        for pool in _pools(state, number):
            state.of("LkeNodePool").pop(pool)
        self._nodes.match(state)

    def inputs(self, state: State, number: str) -> dict[str, Any]:
        cluster = dict(state.of(self.kind)[number])
        pools = [p for p in _pools(state, number).values() if not self._external(cluster, p)]
        return cluster | {"pools": [pool["asked"] for pool in pools]}

    def outputs(self, state: State, number: str) -> dict[str, Any]:
        return self.inputs(state, number) | {
            "apiEndpoints": [self._server.url],
            "dashboardUrl": f"https://{number}.dashboard.example",
            "kubeconfig": self._server.kubeconfig(),
            "status": "ready",
        }

    @staticmethod
    def _external(cluster: dict[str, Any], pool: dict[str, Any]) -> bool:
        return bool(set(cluster.get("externalPoolTags") or []) & set(pool["tags"]))


class Pool(Plain):
    """linode.LkeNodePool."""

    def __init__(self, token: str, account: Account, nodes: Nodes) -> None:
        super().__init__(token, account)
        self._nodes = nodes

    def rules(self, news: Values) -> dict[str, str]:
        if news["type"] != UNKNOWN and news["type"] not in PLANS:
            return {"type": f"there is no plan {news['type']}"}
        if news.get("nodeCount") is None and news.get("autoscaler") is None:
            return {"nodeCount": "must be set where there is no autoscaler"}
        return {}

    def made(self, state: State, number: str) -> None:
        asked = state.of(self.kind)[number]
        cluster = str(int(asked["clusterId"]))
        if cluster not in state.of("LkeCluster"):
            state.of(self.kind).pop(number)
            raise KindError(f"[404] there is no cluster {cluster}.", "create it first.")
        _set_pool(state, number, cluster, asked, asked.get("nodeCount"))
        self._nodes.match(state)

    def gone(self, state: State, number: str) -> None:
        state.of(self.kind).pop(number, None)
        self._nodes.match(state)

    def inputs(self, state: State, number: str) -> dict[str, Any]:
        return dict(state.of(self.kind)[number]["asked"])

    def outputs(self, state: State, number: str) -> dict[str, Any]:
        pool = state.of(self.kind)[number]
        nodes = [
            {"id": name, "instanceId": instance(name), "status": "ready"} for name in pool["nodes"]
        ]
        computed = {"nodes": nodes, "nodeCount": pool["count"], "diskEncryption": "enabled"}
        return self.inputs(state, number) | computed


def _set_pool(
    state: State, number: str | None, cluster: str, asked: dict[str, Any], count: float | None
) -> None:
    """Keep one pool, with the names of its nodes."""
    scaler = asked.get("autoscaler") or {}
    size = int(count if count is not None else scaler.get("min", 1))
    pool = {
        "asked": dict(asked),
        "cluster": cluster,
        "label": asked.get("label", ""),
        "type": asked["type"],
        "count": size,
        "labels": dict(asked.get("labels") or {}),
        "taints": list(asked.get("taints") or []),
        "tags": list(asked.get("tags") or []),
    }
    number = state.add("LkeNodePool", pool) if number is None else number
    pool["nodes"] = [f"lke{cluster}-{number}-{index:08x}" for index in range(size)]
    state.of("LkeNodePool")[number] = pool


def _pools(state: State, cluster: str) -> dict[str, dict[str, Any]]:
    return {n: p for n, p in state.of("LkeNodePool").items() if p.get("cluster") == cluster}
