"""Prometheus, Grafana, the collector and Tempo as they are deployed."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
import yaml

from infra.declared import Program, declare
from infra.given import DIGEST, sources
from infra.schemas import check
from nearfar_infra import alerts, flows, names
from nearfar_infra.components.monitoring import Monitoring, MonitoringArgs
from nearfar_infra.manifests import collector, prometheus, tempo

MIRROR = "https://mirror.example/all"


def monitoring(mirror: str | None = None) -> Program:
    def build() -> None:
        args = MonitoringArgs(
            namespace=names.MONITORING,
            sources=sources(mirror),
            storage_class="linode-block-storage",
            cluster="nearfar",
            collector_token=pulumi.Output.secret("canary-token"),
            grafana_password=pulumi.Output.secret("canary-grafana"),
        )
        Monitoring("monitoring", args)

    return declare(build)


@pytest.fixture(scope="module")
def program() -> Program:
    return monitoring()


@pytest.fixture(scope="module")
def values(program: Program) -> dict[str, Any]:
    found: dict[str, Any] = program.release("monitoring").inputs["values"]
    return found


def test_every_object_is_one_that_the_api_server_knows(program: Program) -> None:
    for manifest in program.manifests:
        if "chart" not in manifest:
            check(manifest)


def test_grafana_has_a_password_and_no_way_in_from_outside(
    program: Program, values: dict[str, Any]
) -> None:
    grafana = values["grafana"]
    secret = program.one("Secret", grafana["admin"]["existingSecret"])
    given = {grafana["admin"]["userKey"], grafana["admin"]["passwordKey"]}
    assert given == secret.inputs["stringData"].keys()
    assert "stringData" in secret.secret
    assert grafana["grafana.ini"]["auth.anonymous"]["enabled"] is False
    assert grafana["grafana.ini"]["users"]["allow_sign_up"] is False
    assert "ClusterIP" == grafana["service"]["type"]
    assert grafana["ingress"]["enabled"] is False


def test_nothing_of_it_is_in_the_table_of_flows_but_the_collector() -> None:
    here = [flow.service for flow in flows.FLOWS if flow.namespace == names.MONITORING]
    assert [flows.COLLECTOR_SERVICE] == here


def test_prometheus_reads_every_monitor_whoever_made_it(values: dict[str, Any]) -> None:
    spec = values["prometheus"]["prometheusSpec"]
    for kind in ("podMonitor", "serviceMonitor", "rule"):
        assert spec[f"{kind}SelectorNilUsesHelmValues"] is False
    assert "linode-block-storage" in json.dumps(spec["storageSpec"])


def test_the_control_plane_is_the_providers_and_not_asked(values: dict[str, Any]) -> None:
    for part in ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy"):
        assert values[part]["enabled"] is False


def test_node_exporters_stand_on_gpu_nodes_too(values: dict[str, Any]) -> None:
    assert [{"operator": "Exists"}] == values["prometheus-node-exporter"]["tolerations"]


@pytest.mark.parametrize("part", ["vllm", "router", "traefik", "gpu", "collector"])
def test_every_part_is_watched(program: Program, part: str) -> None:
    spec = program.one("PodMonitor", part).inputs["spec"]
    assert 1 == len(spec["namespaceSelector"]["matchNames"])
    assert spec["selector"]["matchLabels"]


def test_vllm_is_asked_for_its_own_metrics_and_for_its_gates(program: Program) -> None:
    endpoints = program.one("PodMonitor", "vllm").inputs["spec"]["podMetricsEndpoints"]
    assert {"/metrics", "/nearfar/metrics"} == {endpoint["path"] for endpoint in endpoints}


def test_every_alert_is_a_rule_with_a_severity_and_a_runbook(program: Program) -> None:
    (group,) = program.one("PrometheusRule").inputs["spec"]["groups"]
    assert [alert.name for alert in alerts.ALERTS] == [rule["alert"] for rule in group["rules"]]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["runbook_url"].startswith("docs/runbooks.md#")


def test_dashboards_lie_where_grafana_looks_for_them(program: Program) -> None:
    found = program.one("ConfigMap", "nearfar-dashboards").inputs
    assert "1" == found["metadata"]["labels"]["grafana_dashboard"]
    assert 3 == len([json.loads(text) for text in found["data"].values()])


def test_the_edge_needs_a_token_and_pods_inside_come_another_way() -> None:
    receivers = collector.configuration()["receivers"]
    edge = receivers["otlp/edge"]["protocols"]["http"]
    assert {"authenticator": "bearertokenauth"} == edge["auth"]
    assert edge["endpoint"].endswith(f":{flows.OTLP.port}")
    assert receivers["otlp/inside"]["protocols"]["grpc"]["endpoint"].endswith(":4317")


def test_every_piece_of_the_collectors_pipelines_is_configured() -> None:
    found = collector.configuration()
    for pipeline in found["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= found[kind].keys()
    assert set(found["service"]["extensions"]) == found["extensions"].keys()


def test_spans_go_to_tempo_and_grafana_asks_it(program: Program) -> None:
    assert tempo.ENDPOINT == collector.configuration()["exporters"]["otlphttp"]["endpoint"]
    service = program.one("Service", "tempo").inputs["spec"]
    assert {tempo.PORT, tempo.OTLP_PORT} == {port["port"] for port in service["ports"]}
    source = program.one("ConfigMap", "tempo-source").inputs
    assert "1" == source["metadata"]["labels"]["grafana_datasource"]
    (one,) = yaml.safe_load(source["data"]["tempo.yaml"])["datasources"]
    assert one["url"].endswith(f":{tempo.PORT}")


def test_images_of_ours_come_by_digest_without_privilege(program: Program) -> None:
    for kind in ("Deployment", "StatefulSet"):
        spec = program.one(kind).inputs["spec"]["template"]["spec"]
        (one,) = spec["containers"]
        assert one["image"].endswith(f"@{DIGEST}")
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert one["securityContext"]["readOnlyRootFilesystem"] is True


def test_secrets_stand_in_secrets_alone(program: Program) -> None:
    for found in program.resources:
        if found.kind != "Secret":
            assert "canary" not in str(found.inputs), found.name


def test_a_mirror_holds_every_registry_of_the_chart() -> None:
    values = monitoring(MIRROR).release("monitoring").inputs["values"]
    for path, host in prometheus._REGISTRIES.items():
        found = values
        for name in path:
            found = found[name]
        assert f"mirror.example/all/{host}" == found["registry"], path
