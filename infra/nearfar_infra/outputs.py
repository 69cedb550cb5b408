"""What a deployment tells: the names are those of `pulumi stack output` and of `--stack`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from nearfar_infra.components.cluster import Cluster
from nearfar_infra.components.credentials import Credentials
from nearfar_infra.components.edge import Edge
from nearfar_infra.components.routes import Routes
from nearfar_infra.inside import Inside
from nearfar_infra.settings import Settings


@dataclass(frozen=True, slots=True)
class Outputs:
    """The exported values by their names; secrets are marked as such.

    chatUrl, firstApiKey (where there is an edge), gpuUrl, upstreamKey, keySecret, model, region,
    clusterId, kubeconfig, dashboards, grafanaPassword (where there is monitoring), tryNext.
    """

    exported: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        settings: Settings,
        cluster: Cluster,
        credentials: Credentials,
        routes: Routes,
        parts: Inside,
        edge: Edge | None,
    ) -> Outputs:
        found: dict[str, Any] = {
            "gpuUrl": routes.url,
            "upstreamKey": _secret(credentials.upstream_key),
            "keySecret": _secret(credentials.edge_key_secret),
            "model": settings.serving.spec.served_name,
            "region": settings.cluster.region,
            "clusterId": cluster.cluster_id,
            "kubeconfig": cluster.kubeconfig,
        }
        if edge is not None:
            found |= {"chatUrl": edge.url, "firstApiKey": _secret(edge.first_key)}
        if parts.monitoring is not None:
            found |= {
                "dashboards": parts.monitoring.dashboards,
                "grafanaPassword": _secret(credentials.grafana),
            }
        return cls(found | {"tryNext": _try_next(with_edge=edge is not None)})


def _secret(value: pulumi.Output[str]) -> pulumi.Output[str]:
    """Mark what the engine may not have marked yet, as in a preview."""
    marked: pulumi.Output[str] = pulumi.Output.secret(value)
    return marked


def _try_next(*, with_edge: bool) -> list[str]:
    """Commands that work with the stack as it is; no secret stands in them."""
    stack = pulumi.get_stack()
    ask = [f'./nearfar chat --stack {stack} "Why is the sky blue?"'] if with_edge else []
    kubeconfig = "pulumi stack output kubeconfig --show-secrets"
    return [
        *ask,
        f"cd infra && {kubeconfig} --stack {stack} > ../.nearfar/kubeconfig",
        f"./nearfar cost --stack {stack}",
    ]
