"""The server of embeddings as it is deployed."""

from __future__ import annotations

import pulumi
import pytest

from infra.declared import Program, declare
from infra.given import DIGEST, sources
from infra.schemas import check
from nearfar_infra import flows, names, policies
from nearfar_infra.components.embeddings import Embeddings, EmbeddingsArgs


@pytest.fixture(scope="module")
def program() -> Program:
    def build() -> None:
        key = pulumi.Output.secret("canary-key")
        args = EmbeddingsArgs(names.SERVING, sources(), "linode-block-storage", key)
        Embeddings("embeddings", args)

    return declare(build)


def test_every_object_is_one_that_the_api_server_knows(program: Program) -> None:
    for manifest in program.manifests:
        check(manifest)


def test_it_serves_where_the_flow_says(program: Program) -> None:
    service = program.one("Service", flows.EMBEDDINGS.service).inputs["spec"]
    assert flows.EMBEDDINGS.port == service["ports"][0]["port"]
    labels = program.one("Deployment").inputs["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert policies.FETCHES.items() <= labels.items()


def test_it_asks_for_the_key_of_the_flow_and_pins_its_model(program: Program) -> None:
    spec = program.one("Deployment").inputs["spec"]["template"]["spec"]
    (server,) = spec["containers"]
    given = {entry["name"]: entry for entry in server["env"]}
    assert "valueFrom" in given["VLLM_API_KEY"]
    assert 40 == len(server["args"][server["args"].index("--revision") + 1])
    assert "pooling" == server["args"][server["args"].index("--runner") + 1]
    assert server["image"].endswith(f"@{DIGEST}")
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
