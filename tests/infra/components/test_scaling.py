"""KEDA as it is deployed."""

from __future__ import annotations

from typing import Any

import pytest

from infra.declared import Program, declare
from infra.given import settings, sources
from nearfar_infra import names
from nearfar_infra.components.scaling import Scaling, ScalingArgs
from nearfar_infra.settings import Settings

SCALED = {"autoscaleMax": "3", "gpuNodesMax": "3", "weights": "stream"}


def scaling(chosen: Settings, mirror: str | None = None) -> Program:
    args = ScalingArgs(
        namespace=names.KEDA,
        serving_namespace=names.SERVING,
        sources=sources(mirror),
        serving=chosen.serving,
        deployment="vllm",
        prometheus_url="http://prometheus-operated.nearfar-monitoring.svc:9090",
    )
    return declare(lambda: Scaling("scaling", args))


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    found: dict[str, Any] = scaling(settings(**SCALED)).one("ScaledObject").inputs["spec"]
    return found


def triggers(spec: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {trigger["name"]: trigger["metadata"] for trigger in spec["triggers"]}


def test_it_scales_vllm_within_its_bounds(spec: dict[str, Any]) -> None:
    assert {"name": "vllm"} == spec["scaleTargetRef"]
    assert (1, 3) == (spec["minReplicaCount"], spec["maxReplicaCount"])


def test_at_zero_the_edges_demand_wakes_the_first_server() -> None:
    """vLLM and its gate say nothing then, so what counts must come from elsewhere."""
    found = scaling(settings(**SCALED, scaleToZero="true")).one("ScaledObject").inputs["spec"]
    assert 0 == found["minReplicaCount"]
    edge = triggers(found)["edge"]
    assert "traefik_service_requests_total" in edge["query"]
    assert "vllm:" not in edge["query"]
    assert "nearfar_gate" not in edge["query"]
    assert "0" == edge["activationThreshold"]


def test_demand_at_the_edge_alone_keeps_one_server_and_no_more(spec: dict[str, Any]) -> None:
    edge = triggers(spec)["edge"]
    assert edge["query"].startswith("clamp_max(")
    assert "1" == edge["threshold"]


def test_what_waits_in_vllm_counts_too(spec: dict[str, Any]) -> None:
    waiting = triggers(spec)["waiting"]
    assert "vllm:num_requests_waiting" in waiting["query"]
    serving = settings(**SCALED).serving.spec
    assert 0 < int(waiting["threshold"]) < serving.max_num_queued_reqs - serving.max_num_seqs


def test_full_seats_want_another_server_before_anybody_waits(spec: dict[str, Any]) -> None:
    seats = triggers(spec)["seats"]
    assert int(seats["threshold"]) < settings(**SCALED).serving.spec.max_num_seqs


def test_a_missing_series_is_zero_and_no_error(spec: dict[str, Any]) -> None:
    for trigger in triggers(spec).values():
        assert trigger["query"].endswith("or vector(0)")


def test_without_prometheus_there_are_as_many_as_without_scaling(spec: dict[str, Any]) -> None:
    assert 1 == spec["fallback"]["replicas"]


def test_a_server_that_cost_minutes_to_start_goes_only_after_a_quiet_while(
    spec: dict[str, Any],
) -> None:
    behaviour = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] >= 600
    assert 0 == behaviour["scaleUp"]["stabilizationWindowSeconds"]
    assert spec["cooldownPeriod"] >= 600


def test_keda_sees_the_serving_namespace_alone_and_comes_by_digest() -> None:
    values = scaling(settings(**SCALED)).release("keda").inputs["values"]
    assert names.SERVING == values["watchNamespace"]
    for part in ("keda", "metricsApiServer", "webhooks"):
        assert "@sha256:" in values["image"][part]["tag"]


def test_a_mirror_holds_kedas_images() -> None:
    values = scaling(settings(**SCALED), "https://m.example/p").release("keda").inputs["values"]
    for part in ("keda", "metricsApiServer", "webhooks"):
        image = values["image"][part]
        assert f"{image['registry']}/{image['repository']}".startswith("m.example/p/ghcr.io/")
