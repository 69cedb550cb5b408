"""The edge inside the cluster, object by object."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest

from nearfar.edge import COMPILE_FLAGS
from nearfar_infra.manifests import edge, edge_store, spin_edge, wasmtime_edge

NS = "nearfar-edge"
IMAGE = "registry.example/acme/edge@sha256:" + "a" * 64
VARIABLES = {"NEARFAR_ROUTES": "", "NEARFAR_KEY_SECRET": ""}
KEY = "nf_first.key"

DEPLOYMENT = wasmtime_edge.deployment("t1", NS, IMAGE, VARIABLES, 2, private=True)
STORE = edge_store.deployment(NS, "docker.io/library/redis:8@sha256:" + "b" * 64)
TRIAL = edge.trial("t1", NS, "qwen", "docker.io/library/python:3@sha256:" + "c" * 64)
ALL = {
    "deployment": DEPLOYMENT,
    "store": STORE,
    "trial": TRIAL,
    "settings": edge.settings_secret("t1", NS, {"NEARFAR_ROUTES": "{}"}),
    "candidate": edge.candidate("t1", NS),
    "service": edge.service(NS, "t1"),
    "key": edge.key_secret("t1", NS, KEY),
    "pull": edge.pull_secret(NS, "registry.example/acme/edge", "bot", "pass"),
    "budget": edge.disruption_budget(NS),
    "store secret": edge_store.secret(NS, "p" * 43),
    "store volume": edge_store.volume(NS, "linode-block-storage"),
    "store service": edge_store.service(NS),
}


@pytest.mark.parametrize("version", ["1.33", "1.35"])
@pytest.mark.parametrize("name", ALL)
def test_every_object_is_one_that_kubernetes_takes(name: str, version: str) -> None:
    kubernetes_validate.validate(ALL[name], version, strict=True)


def test_the_definitions_are_some_that_kubernetes_takes() -> None:
    for kind, plural in (("SpinApp", "spinapps"), ("SpinAppExecutor", "spinappexecutors")):
        made = spin_edge.definition(kind, plural, status=True)
        kubernetes_validate.validate(made, "1.35", strict=True)


@pytest.mark.parametrize("manifest", [DEPLOYMENT, STORE, TRIAL])
def test_every_pod_has_no_privilege_no_token_and_no_service_links(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["template"]["spec"]
    assert (False, False) == (pod["enableServiceLinks"], pod["automountServiceAccountToken"])
    assert True is pod["securityContext"]["runAsNonRoot"]
    assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
    for container in pod["containers"]:
        assert {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        } == container["securityContext"]
        assert "@sha256:" in container["image"]
        assert "memory" in container["resources"]["limits"]


def test_the_edge_is_served_with_the_flags_that_it_was_compiled_with() -> None:
    (container,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
    words = container["args"]
    assert list(COMPILE_FLAGS) == words[1 : 1 + len(COMPILE_FLAGS)]
    assert "0.0.0.0:3000" in words
    assert words[-1] == "/app/edge.cwasm"


def test_no_value_of_a_setting_stands_on_the_command_line() -> None:
    made = wasmtime_edge.deployment("t1", NS, IMAGE, {"NEARFAR_STORE": "canary"}, 1, private=False)
    assert "canary" not in json.dumps(made)


def test_an_old_version_serves_until_a_new_one_is_ready() -> None:
    strategy = DEPLOYMENT["spec"]["strategy"]["rollingUpdate"]
    assert (1, 0) == (strategy["maxSurge"], strategy["maxUnavailable"])
    other = wasmtime_edge.deployment("t2", NS, IMAGE, VARIABLES, 2, private=True)
    assert DEPLOYMENT["metadata"]["name"] != other["metadata"]["name"]


def test_a_service_selects_one_version_of_the_edge_and_nothing_that_asks_it() -> None:
    selector = edge.service(NS, "t1")["spec"]["selector"]
    assert selector.items() <= DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()
    assert not selector.items() <= TRIAL["spec"]["template"]["metadata"]["labels"].items()
    assert not edge.service(NS, "t2")["spec"]["selector"].items() <= (
        DEPLOYMENT["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_ports_of_services_are_names_that_the_pods_have() -> None:
    (container,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
    named = {port["name"] for port in container["ports"]}
    for service in (edge.service(NS, "t1"), edge.candidate("t1", NS)):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


def test_readiness_does_not_ask_the_model() -> None:
    (container,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    assert {"/healthz"} == {container[probe]["httpGet"]["path"] for probe in probes}


def test_a_drained_pod_has_time_for_its_streams() -> None:
    pod = DEPLOYMENT["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    drain_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert drain_s < pod["terminationGracePeriodSeconds"]


def test_the_trials_key_is_no_part_of_the_job() -> None:
    assert KEY not in json.dumps(TRIAL)
    (container,) = TRIAL["spec"]["template"]["spec"]["containers"]
    (secret,) = [entry for entry in container["env"] if entry["name"] == "KEY"]
    assert {"name": "edge-t1-trial", "key": "key"} == secret["valueFrom"]["secretKeyRef"]


def test_the_store_evicts_revocations_last_and_lets_nobody_in_without_password() -> None:
    config = edge_store.config("p" * 43)
    assert "maxmemory-policy volatile-ttl" in config
    assert "user default off" in config
    assert ("p" * 43) not in json.dumps(STORE)


def test_a_spin_app_is_ready_by_the_edges_own_word_and_keeps_answers_outside_the_pod() -> None:
    app = spin_edge.app("t1", NS, "r.example/e:1", {"routes": "{}", "store": ""}, 2, private=False)
    assert {"/healthz"} == {check["httpGet"]["path"] for check in app["spec"]["checks"].values()}
    (store,) = app["spec"]["runtimeConfig"]["keyValueStores"]
    assert ("default", "redis") == (store["name"], store["type"])
    assert edge.labels("t1").items() <= app["spec"]["podLabels"].items()
