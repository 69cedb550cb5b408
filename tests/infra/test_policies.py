"""What may talk to what in a deployment, by its own NetworkPolicies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from infra import whole
from infra.reach import Outside, Pod, may
from nearfar_infra import names, policies

HUB = Outside("151.101.1.1")
NODEBALANCER = Outside("192.168.255.7")
STRANGER = Outside("203.0.113.66")
NEIGHBOUR = Outside("192.168.140.9")
DNS = Pod(names.KUBE_SYSTEM, {"k8s-app": "kube-dns"})


def pod(namespace: str, part: str, **more: str) -> Pod:
    return Pod(namespace, {**names.labels(part), **more})


TRAEFIK = pod(names.INGRESS, "traefik")
VLLM = pod(names.SERVING, "vllm")
REDIS = pod(names.STORE, "redis")
COLLECTOR = pod(names.MONITORING, "collector")
PROMETHEUS = Pod(names.MONITORING, {"app.kubernetes.io/name": "prometheus"})
GRAFANA = Pod(names.MONITORING, {"app.kubernetes.io/name": "grafana"})
EDGE = pod(names.EDGE, "edge")
FETCH = Pod(names.SERVING, {**names.labels("fetch"), **policies.FETCHES})
ROUTER = pod(names.SERVING, "router")


def reach(kind: str) -> list[dict[str, object]]:
    return [one.inputs for one in whole.kind(kind).typed(":NetworkPolicy")]


@pytest.mark.parametrize("name", whole.KINDS)
def test_every_namespace_of_ours_denies_all_that_is_not_named(name: str) -> None:
    program = whole.kind(name)
    for made in program.typed(":Namespace"):
        own = [
            one.inputs["spec"]
            for one in program.typed(":NetworkPolicy")
            if one.inputs["metadata"]["namespace"] == made.called
        ]
        assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in own, made.called


@pytest.mark.parametrize("name", whole.KINDS)
def test_every_exception_says_why_and_lies_in_a_namespace_that_is_there(name: str) -> None:
    program = whole.kind(name)
    present = {made.called for made in program.typed(":Namespace")}
    for one in program.typed(":NetworkPolicy"):
        metadata = one.inputs["metadata"]
        assert metadata["namespace"] in present
        assert metadata["name"] == "default-deny" or metadata["annotations"]["nearfar.dev/why"]


@pytest.mark.parametrize("name", whole.KINDS)
def test_every_pod_of_ours_looks_up_names_in_the_cluster_and_nowhere_else(name: str) -> None:
    known = reach(name)
    for made, template in whole.pods(whole.kind(name)):
        asks = Pod(made["metadata"]["namespace"], template["metadata"]["labels"])
        assert may(known, asks, DNS, "53/UDP")
        assert not may(known, asks, Outside("192.168.130.1"), "53/UDP")


# kind of deployment, from, to, port
ALLOWED: Sequence[tuple[str, Pod | Outside, Pod | Outside, int | str]] = (
    ("smallest", NODEBALANCER, TRAEFIK, 8443),
    ("smallest", TRAEFIK, VLLM, 8000),
    ("smallest", TRAEFIK, COLLECTOR, 4318),
    ("smallest", TRAEFIK, HUB, 443),
    ("smallest", VLLM, REDIS, 6379),
    ("smallest", VLLM, COLLECTOR, 4318),
    ("smallest", FETCH, HUB, 443),
    ("smallest", PROMETHEUS, VLLM, 8000),
    ("smallest", PROMETHEUS, TRAEFIK, 9100),
    ("smallest", PROMETHEUS, NEIGHBOUR, 10250),
    ("smallest", GRAFANA, PROMETHEUS, 9090),
    ("domain", TRAEFIK, HUB, "53/UDP"),
    ("many servers", TRAEFIK, ROUTER, 8000),
    ("many servers", ROUTER, VLLM, 8000),
    ("many servers", TRAEFIK, pod(names.SERVING, "embeddings"), 8000),
    ("many servers", Pod(names.KEDA), PROMETHEUS, 9090),
    ("edge beside the model", TRAEFIK, EDGE, 3000),
    ("edge under spinkube", TRAEFIK, EDGE, 80),  # a policy counts the pods' port
    ("edge beside the model", EDGE, VLLM, 8000),
    ("edge beside the model", EDGE, COLLECTOR, 4318),
    ("redis elsewhere", VLLM, Outside("203.0.113.80"), 6380),
)
DENIED: Sequence[tuple[str, Pod | Outside, Pod | Outside, int | str]] = (
    ("smallest", STRANGER, TRAEFIK, 8443),
    ("smallest", STRANGER, VLLM, 8000),
    ("smallest", STRANGER, REDIS, 6379),
    ("smallest", NEIGHBOUR, VLLM, 8000),
    ("smallest", VLLM, HUB, 443),
    ("smallest", VLLM, TRAEFIK, 8443),
    ("smallest", REDIS, HUB, 443),
    ("smallest", REDIS, VLLM, 8000),
    ("smallest", TRAEFIK, REDIS, 6379),
    ("smallest", TRAEFIK, GRAFANA, 3000),
    ("smallest", TRAEFIK, PROMETHEUS, 9090),
    ("smallest", COLLECTOR, REDIS, 6379),
    ("smallest", FETCH, NEIGHBOUR, 443),
    ("smallest", FETCH, REDIS, 6379),
    ("smallest", Pod("default"), VLLM, 8000),
    ("smallest", Pod("default"), REDIS, 6379),
    ("smallest", TRAEFIK, HUB, "53/UDP"),
    ("edge beside the model", TRAEFIK, VLLM, 8000),
    ("edge beside the model", EDGE, REDIS, 6379),
    ("edge beside the model", TRAEFIK, COLLECTOR, 4318),
)


@pytest.mark.parametrize(("kind", "source", "target", "port"), ALLOWED)
def test_what_is_needed_is_let_through(
    kind: str, source: Pod | Outside, target: Pod | Outside, port: int | str
) -> None:
    assert may(reach(kind), source, target, port)


@pytest.mark.parametrize(("kind", "source", "target", "port"), DENIED)
def test_what_is_not_needed_is_not(
    kind: str, source: Pod | Outside, target: Pod | Outside, port: int | str
) -> None:
    assert not may(reach(kind), source, target, port)


def test_a_namespace_without_policies_would_let_all_through() -> None:
    assert may([], STRANGER, Pod("anything"), 1)
