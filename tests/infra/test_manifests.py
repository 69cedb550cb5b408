"""Every Kubernetes object of every kind of deployment, against the API and our own rules."""

from __future__ import annotations

import json
import re
from typing import Any

import kubernetes_validate
import pytest

from infra import whole
from infra.declared import SECRET, Program
from nearfar_infra import names
from nearfar_infra.fields import FIELDS
from nearfar_infra.rules import KUBERNETES_VERSIONS

# Objects of kinds that charts bring; the API server of the engine's tests checks those.
FOREIGN = (
    "core.spinkube.dev/v1alpha1",
    "keda.sh/v1alpha1",
    "monitoring.coreos.com/v1",
    "networking.linode.com/alpha1v1",
    "traefik.io/v1alpha1",
)
DEFAULT = str(FIELDS["kubernetesVersion"].default)
DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
# What a pod of the level "restricted" may mount.
ALLOWED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
every = pytest.mark.parametrize("name", whole.KINDS)


def objects(program: Program) -> list[dict[str, Any]]:
    return [made for made in program.manifests if "kind" in made and "metadata" in made]


def distinct() -> list[dict[str, Any]]:
    """Each object of Kubernetes' own kinds once, whatever the deployments that have it."""
    found = {
        json.dumps(made, sort_keys=True): made
        for name in whole.KINDS
        for made in objects(whole.kind(name))
        if made["apiVersion"] not in FOREIGN
    }
    return list(found.values())


def test_every_object_is_one_of_the_cluster_s_version() -> None:
    for made in distinct():
        kubernetes_validate.validate(made, DEFAULT, strict=True)


@pytest.mark.parametrize("version", [v for v in KUBERNETES_VERSIONS if v != DEFAULT])
def test_one_object_of_each_shape_is_of_every_version_that_may_be_chosen(version: str) -> None:
    shapes = {
        (made["kind"], *sorted(made), *sorted(made.get("spec") or {})): made for made in distinct()
    }
    for made in shapes.values():
        kubernetes_validate.validate(made, version, strict=True)


@every
def test_only_known_kinds_go_unchecked(name: str) -> None:
    found = {made["apiVersion"] for made in objects(whole.kind(name)) if "." in made["apiVersion"]}
    assert {api for api in found if not api.partition("/")[0].endswith(".k8s.io")} <= set(FOREIGN)


@every
def test_every_object_is_named_and_belongs_to_the_project(name: str) -> None:
    for made in objects(whole.kind(name)):
        assert made["metadata"]["name"], made["kind"]
        if made["kind"] in ("CustomResourceDefinition", "SpinAppExecutor"):
            continue  # SpinKube's own, made as its release makes them
        labels = made["metadata"].get("labels", {})
        assert names.PROJECT == labels.get("app.kubernetes.io/part-of"), made["metadata"]["name"]


@every
def test_every_image_is_named_by_its_digest(name: str) -> None:
    for made, template in whole.pods(whole.kind(name)):
        spec = template["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            assert DIGEST.fullmatch(container["image"]), made["metadata"]["name"]


@every
def test_every_chart_is_pinned_and_no_value_floats(name: str) -> None:
    for release in whole.kind(name).typed(":Release"):
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", release.inputs["version"]), release.name
        assert not re.search(
            r'"tag": "(latest|main|master)?"', json.dumps(release.inputs["values"])
        )


@every
@pytest.mark.fault(28)
def test_no_pod_gets_variables_for_the_namespace_s_services(name: str) -> None:
    for made, template in whole.pods(whole.kind(name)):
        assert template["spec"]["enableServiceLinks"] is False, made["metadata"]["name"]


@every
@pytest.mark.fault(28)
def test_no_service_is_called_vllm(name: str) -> None:
    services = [
        one["metadata"]["name"] for one in objects(whole.kind(name)) if one["kind"] == "Service"
    ]
    assert "vllm" not in services


def enforced(program: Program) -> dict[str, str]:
    """Namespace → the level of pod security that the API server holds its pods to."""
    label = "pod-security.kubernetes.io/enforce"
    spaces = program.all("Namespace")
    return {made.called: made.inputs["metadata"]["labels"][label] for made in spaces}


@every
def test_pods_of_ours_meet_the_strictest_level_and_the_server_holds_them_to_it(name: str) -> None:
    program = whole.kind(name)
    levels = enforced(program)
    for made, template in whole.pods(program):
        spec, called = template["spec"], made["metadata"]["name"]
        if "privileged" == levels[made["metadata"]["namespace"]]:
            assert "snapshot" == name or names.SERVING != made["metadata"]["namespace"]
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True, called
        assert "RuntimeDefault" == spec["securityContext"]["seccompProfile"]["type"], called
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), called
        for volume in spec.get("volumes", ()):
            assert {*volume} - {"name"} <= ALLOWED_VOLUMES, called
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            security = container["securityContext"]
            assert {"drop": ["ALL"]} == security["capabilities"], called
            assert security["allowPrivilegeEscalation"] is False, called
            assert security["readOnlyRootFilesystem"] is True, called
            assert not [port for port in container.get("ports", ()) if "hostPort" in port], called


@pytest.mark.parametrize(
    ("name", "namespace", "level"),
    [
        ("smallest", names.SERVING, "restricted"),
        ("smallest", names.STORE, "restricted"),
        ("smallest", names.INGRESS, "baseline"),
        ("smallest", names.GPU_OPERATOR, "privileged"),
        ("edge beside the model", names.EDGE, "restricted"),
        ("edge under spinkube", names.EDGE, "baseline"),
        ("snapshot", names.SERVING, "privileged"),
    ],
)
def test_a_namespace_lets_pods_go_as_far_as_they_must(
    name: str, namespace: str, level: str
) -> None:
    assert level == enforced(whole.kind(name))[namespace]


@every
def test_no_secret_stands_anywhere_but_in_a_secret(name: str) -> None:
    for made in whole.kind(name).resources:
        if made.kind == "Secret" or made.type.startswith(("pulumi:", "nearfar:")):
            continue
        text = json.dumps({k: v for k, v in made.inputs.items() if k not in made.secret})
        assert SECRET not in text, made.name
        assert "canary" not in text, made.name


@every
def test_what_is_secret_is_marked_so_wherever_it_goes(name: str) -> None:
    for made in whole.kind(name).resources:
        for key, value in made.inputs.items():
            text = json.dumps(value)
            if SECRET in text or "canary" in text:
                assert key in made.secret, f"{made.type} {made.name} {key}"


@every
@pytest.mark.fault(23)
def test_servers_on_one_gpu_make_room_before_they_come(name: str) -> None:
    on_gpu = [
        made["spec"]
        for made, template in whole.pods(whole.kind(name))
        if made["kind"] == "Deployment"
        and any(
            names.GPU_RESOURCE in json.dumps(c.get("resources", {}))
            for c in template["spec"]["containers"]
        )
    ]
    assert on_gpu
    for spec in on_gpu:
        tolerations = spec["template"]["spec"]["tolerations"]
        assert names.gpu_tolerations()[0] in tolerations
        strategy = spec["strategy"]
        alone = strategy["type"] == "Recreate"
        assert alone or 0 == int(strategy["rollingUpdate"]["maxSurge"])


@every
@pytest.mark.fault(27)
def test_every_claim_goes_with_what_made_it_and_its_volume_with_it(name: str) -> None:
    program = whole.kind(name)
    for made in objects(program):
        spec = made.get("spec", {})
        if made["kind"] == "StatefulSet" and spec.get("volumeClaimTemplates"):
            assert "Delete" == spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"]
        if made["kind"] == "PersistentVolumeClaim":
            assert names.STORAGE_CLASS == spec["storageClassName"]
    assert "linode-block-storage-retain" not in json.dumps(program.manifests)


@every
def test_only_the_front_is_reached_from_outside(name: str) -> None:
    services = [one for one in objects(whole.kind(name)) if one["kind"] == "Service"]
    outside = [
        one["metadata"]["name"]
        for one in services
        if one["spec"].get("type", "ClusterIP") != "ClusterIP"
    ]
    assert ["front"] == outside
    assert not [one for one in objects(whole.kind(name)) if one["kind"] == "Ingress"]
