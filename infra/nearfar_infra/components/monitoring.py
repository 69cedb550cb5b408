"""Prometheus, Grafana, alerts and the collector that the edge sends its records to."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

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
