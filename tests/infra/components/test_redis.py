"""Redis as it is deployed."""

from __future__ import annotations

import pulumi
import pytest

from infra.declared import Program, declare
from infra.given import DIGEST, sources
from infra.schemas import check
from nearfar_infra import names
from nearfar_infra.components.redis import Redis, RedisArgs


def redis(gate: str = "canary-gate") -> Program:
    def build() -> None:
        args = RedisArgs(
            namespace=names.STORE,
            sources=sources(),
            storage_class="linode-block-storage",
            gate_password=pulumi.Output.secret(gate),
            metrics_password=pulumi.Output.secret("canary-metrics"),
            operator_password=pulumi.Output.secret("canary-operator"),
        )
        found = Redis("redis", args)
        pulumi.export("url", found.url)

    return declare(build)


@pytest.fixture(scope="module")
def program() -> Program:
    return redis()


def test_every_object_is_one_that_the_api_server_knows(program: Program) -> None:
    for manifest in program.manifests:
        check(manifest)


def test_it_is_one_server_with_a_volume_that_goes_with_it(program: Program) -> None:
    spec = program.one("StatefulSet").inputs["spec"]
    assert 1 == spec["replicas"]
    assert "Delete" == spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"]
    (claim,) = spec["volumeClaimTemplates"]
    assert "linode-block-storage" == claim["spec"]["storageClassName"]


def test_it_has_no_privilege_and_stands_on_the_cpu_pool(program: Program) -> None:
    pod = program.one("StatefulSet").inputs["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    assert names.on_pool(names.CPU_POOL) == pod["nodeSelector"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    assert server["image"].endswith(f":8.2.3@{DIGEST}")


def test_passwords_stand_in_one_secret_and_nowhere_else(program: Program) -> None:
    for found in program.resources:
        if found.kind != "Secret":
            assert "canary" not in str(found.inputs)
    secret = program.one("Secret")
    assert "stringData" in secret.secret
    assert {"users.acl", "metrics", "operator"} == secret.inputs["stringData"].keys()


def test_the_pod_sees_the_file_of_users_and_no_password_of_others(program: Program) -> None:
    """The operator's is in the Secret for who may read it there, and in no pod."""
    pod = program.one("StatefulSet").inputs["spec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    mounted = [source["secret"]["items"] for source in volume["projected"]["sources"][1:]]
    assert [[{"key": "users.acl", "path": "users.acl"}]] == mounted
    (server,) = pod["containers"]
    assert ["metrics"] == [e["valueFrom"]["secretKeyRef"]["key"] for e in server["env"]]


def test_another_password_starts_it_anew() -> None:
    def version(program: Program) -> str:
        meta = program.one("StatefulSet").inputs["spec"]["template"]["metadata"]
        return str(meta["annotations"]["nearfar.dev/configuration"])

    assert version(redis()) != version(redis("canary-other"))
    assert version(redis()) == version(redis())


def test_it_is_reached_inside_and_by_no_load_balancer(program: Program) -> None:
    assert "type" not in program.one("Service").inputs["spec"]
