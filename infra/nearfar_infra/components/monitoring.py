"""Prometheus, Grafana, alerts and the collector that the edge sends its records to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import alerts, dashboards, names
from nearfar_infra.manifests import Manifest, collector, prometheus, tempo
from nearfar_infra.objects import declare
from nearfar_infra.releases import release
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class MonitoringArgs:
    """`collector_token` is the bearer token of the flow "otlp"; `cluster` names it in Grafana."""

    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str
    cluster: str
    collector_token: pulumi.Input[str]
    grafana_password: pulumi.Input[str]


class Monitoring(pulumi.ComponentResource):
    """`otlp_endpoint` is for pods inside, without a token; `dashboards` is a command to try."""

    otlp_endpoint: pulumi.Output[str]
    prometheus_url: pulumi.Output[str]
    dashboards: pulumi.Output[str]

    def __init__(
        self, name: str, args: MonitoringArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:Monitoring", name, {}, opts)
        own = ResourceOptions(parent=self)
        secret = declare(
            f"{name}-grafana", prometheus.secret(args.namespace, args.grafana_password), own
        )
        stack = release(
            prometheus.RELEASE,
            args.sources.chart("kube-prometheus-stack"),
            args.namespace,
            prometheus.values(args.storage_class, args.cluster, args.sources.mirror),
            ResourceOptions(parent=self, depends_on=[secret]),
            timeout_s=900,
        )
        # The kinds of monitors and rules come with the chart.
        after = ResourceOptions(parent=self, depends_on=[stack])
        watched = prometheus.pod_monitors(args.namespace) | {"alerts": alerts.rules(args.namespace)}
        for part, manifest in watched.items():
            declare(f"{name}-{part}", manifest, after)
        declare(f"{name}-dashboards", drawn(args.namespace), own)
        answering = self._traces(name, args)
        self.prometheus_url = stack.id.apply(lambda _: prometheus.PROMETHEUS)
        self.otlp_endpoint = answering.id.apply(lambda _: collector.ENDPOINT)
        self.dashboards = stack.id.apply(lambda _: forward())
        self.register_outputs({})

    def _traces(self, name: str, args: MonitoringArgs) -> Any:
        """Tempo, and before it the collector."""
        own = ResourceOptions(parent=self)
        kept = tempo.objects(
            args.namespace, args.sources.image("tempo").reference, args.storage_class
        )
        stores = [declare(f"{name}-tempo-{part}", found, own) for part, found in kept.items()]
        after = ResourceOptions(parent=self, depends_on=stores)
        found = collector.objects(
            args.namespace, args.sources.image("collector").reference, args.collector_token
        )
        *_, last = [
            declare(f"{name}-collector-{part}", manifest, after) for part, manifest in found.items()
        ]
        return last


def drawn(namespace: pulumi.Input[str]) -> Manifest:
    """The dashboards, where Grafana's sidecar looks for them."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "nearfar-dashboards",
            "namespace": namespace,
            "labels": {**names.labels("dashboards"), "grafana_dashboard": "1"},
        },
        "data": dashboards.documents(),
    }


def forward() -> str:
    """How an operator gets to Grafana: it has no address outside."""
    service = f"svc/{prometheus.GRAFANA_SERVICE}"
    return f"kubectl -n {names.MONITORING} port-forward {service} 3001:80"
