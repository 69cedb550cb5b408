"""The GPU operator and its check."""

from __future__ import annotations

from typing import Any

import pytest

from infra.declared import Program, declare
from infra.given import DIGEST, sources
from infra.schemas import check
from nearfar_infra import names, policies, versions
from nearfar_infra.components.gpu_operator import GpuOperator, GpuOperatorArgs

MIRROR = "https://mirror.example/all"


def operator(mirror: str | None = None) -> Program:
    args = GpuOperatorArgs(names.GPU_OPERATOR, sources(mirror), "4712")
    return declare(lambda: GpuOperator("gpu", args))


@pytest.fixture(scope="module")
def program() -> Program:
    return operator()


def every(value: Any, name: str) -> list[Any]:
    """Every value under a key, however deep."""
    if not isinstance(value, dict):
        return []
    found = [value[name]] if name in value else []
    return found + [inner for part in value.values() for inner in every(part, name)]


def test_every_object_is_one_that_the_api_server_knows(program: Program) -> None:
    for manifest in program.manifests:
        if "chart" not in manifest:
            check(manifest)


def test_the_chart_is_pinned(program: Program) -> None:
    release = program.release("gpu-operator").inputs
    assert versions.charts()["gpu-operator"].version == release["version"]


def test_its_daemonsets_tolerate_the_pools_taint(program: Program) -> None:
    values = program.release("gpu-operator").inputs["values"]
    assert names.gpu_tolerations() == values["daemonsets"]["tolerations"]
    assert names.gpu_tolerations() == values["node-feature-discovery"]["worker"]["tolerations"]


def test_dcgm_is_exported(program: Program) -> None:
    assert program.release("gpu-operator").inputs["values"]["dcgmExporter"]["enabled"] is True


def test_the_check_asks_the_api_and_takes_no_gpu(program: Program) -> None:
    """It would wait for ever beside a vLLM that holds the only one."""
    spec = program.one("Job").inputs["spec"]["template"]["spec"]
    (one,) = spec["containers"]
    assert names.GPU_RESOURCE in one["command"]
    assert f"{names.POOL_LABEL}={names.GPU_POOL}" in one["command"]
    assert names.GPU_RESOURCE not in str(one["resources"])
    assert names.on_pool(names.CPU_POOL) == spec["nodeSelector"]
    assert one["image"].endswith(f"@{DIGEST}")
    assert one["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_checks_account_reads_nodes_and_nothing_else(program: Program) -> None:
    (rule,) = program.one("ClusterRole").inputs["rules"]
    assert (["nodes"], {"get", "list"}) == (rule["resources"], set(rule["verbs"]))
    (subject,) = program.one("ClusterRoleBinding").inputs["subjects"]
    account = program.one("ServiceAccount")
    assert (account.called, names.GPU_OPERATOR) == (subject["name"], subject["namespace"])
    pod = program.one("Job").inputs["spec"]["template"]["spec"]
    assert account.called == pod["serviceAccountName"]


def test_the_check_may_ask_the_api_server(program: Program) -> None:
    labels = program.one("Job").inputs["spec"]["template"]["metadata"]["labels"]
    assert policies.ASKS_API.items() <= labels.items()


def test_the_job_is_named_by_what_it_checks(program: Program) -> None:
    assert program.one("Job").called.startswith("gpu-check-")
    assert program.one("Job").called != operator(MIRROR).one("Job").called


def test_a_mirror_holds_every_image_of_the_chart() -> None:
    values = operator(MIRROR).release("gpu-operator").inputs["values"]
    found = every(values, "repository")
    assert len(found) > 8
    assert all(one.startswith("mirror.example/all/") for one in found)
    release = operator(MIRROR).release("gpu-operator").inputs
    assert f"{MIRROR}/charts" == release["repositoryOpts"]["repo"]
