"""vllm-router as it is deployed."""

from __future__ import annotations

import re

import pytest

from infra.declared import Program, declare
from infra.given import sources
from infra.schemas import check
from nearfar_infra import flows, names, policies
from nearfar_infra.components.router import Router, RouterArgs
from nearfar_infra.manifests import libraries, prometheus, router


@pytest.fixture(scope="module")
def program() -> Program:
    args = RouterArgs(names.SERVING, sources(), "linode-block-storage")
    return declare(lambda: Router("router", args))


def flag(name: str) -> str:
    args = router.arguments()
    return args[args.index(name) + 1]


def test_every_object_is_one_that_the_api_server_knows(program: Program) -> None:
    for manifest in program.manifests:
        check(manifest)


def test_it_sends_a_prompt_where_its_beginning_is_cached() -> None:
    assert "cache_aware" == flag("--policy")


def test_a_grant_is_sent_once_and_a_shed_request_opens_no_circuit() -> None:
    assert {"--disable-retries", "--disable-circuit-breaker"} <= set(router.arguments())


def test_it_finds_vllms_pods_by_the_labels_that_they_have() -> None:
    args = router.arguments()
    at = args.index("--selector")
    selected = dict(pair.split("=", 1) for pair in args[at + 1 : at + 1 + 2])
    assert names.selector("vllm") == selected
    assert names.SERVING == flag("--service-discovery-namespace")
    assert str(flows.MODEL_PORT) == flag("--service-discovery-port")


def test_its_account_sees_pods_of_its_namespace_and_nothing_else(program: Program) -> None:
    (rule,) = program.one("Role").inputs["rules"]
    assert (["pods"], {"get", "list", "watch"}) == (rule["resources"], set(rule["verbs"]))
    assert not program.all("ClusterRole")
    pod = program.one("Deployment").inputs["spec"]["template"]
    assert program.one("ServiceAccount").called == pod["spec"]["serviceAccountName"]
    assert policies.ASKS_API.items() <= pod["metadata"]["labels"].items()


def test_its_libraries_are_installed_by_hash_onto_a_volume(program: Program) -> None:
    text = program.one("ConfigMap").inputs["data"]["libraries.txt"]
    pins = re.findall(r"^([a-z0-9._-]+)==", text, re.MULTILINE)
    assert "vllm-router" in pins
    assert len(pins) <= text.count("--hash=sha256:")
    assert len(text) < 900_000
    (install,) = program.one("Deployment").inputs["spec"]["template"]["spec"]["initContainers"]
    (serve,) = program.one("Deployment").inputs["spec"]["template"]["spec"]["containers"]
    where = next(e["value"] for e in serve["env"] if e["name"] == "PYTHONPATH")
    assert where == install["command"][-1]


def test_prometheus_may_read_it() -> None:
    assert policies.ROUTER_METRICS_PORT == router.METRICS_PORT
    assert prometheus.PORTS["router"] == int(flag("--prometheus-port"))


def test_a_lock_that_lacks_a_package_says_so() -> None:
    with pytest.raises(Exception, match="does not hold nonsense"):
        libraries.some(libraries.router_lock(), ["nonsense"])


def test_the_gates_libraries_are_those_of_vllms_own_lock() -> None:
    text = libraries.some(libraries.gate_lock(), libraries.GATE)
    assert text.startswith("redis==")
    assert 2 <= text.count("--hash=sha256:")
