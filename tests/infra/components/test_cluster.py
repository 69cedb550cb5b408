"""The cluster as it is asked for, and how everything after it gets in."""

from __future__ import annotations

import base64

import pytest

from infra import given
from infra.declared import CLUSTER_ID, KUBECONFIG, Program, declare
from nearfar_infra import names
from nearfar_infra.components.cluster import Cluster, ClusterArgs, decoded


def cluster(*, preview: bool = False, **changed: str) -> Program:
    def build() -> None:
        Cluster("cluster", ClusterArgs(given.settings(**changed).cluster))

    return declare(build, preview=preview)


def test_it_has_the_version_region_and_control_plane_that_were_asked_for() -> None:
    made = cluster(region="fr-par", kubernetesVersion="1.34", highAvailability="true")
    inputs = made.typed(":LkeCluster")[0].inputs
    assert ("fr-par", "1.34") == (inputs["region"], inputs["k8sVersion"])
    assert inputs["controlPlane"]["highAvailability"] is True


def test_only_the_named_networks_reach_the_api_server() -> None:
    made = cluster(apiAllowed='["198.51.100.0/24", "2001:db8::/32"]')
    acl = made.typed(":LkeCluster")[0].inputs["controlPlane"]["acl"]
    assert acl["enabled"] is True
    assert [{"ipv4s": ["198.51.100.0/24"], "ipv6s": ["2001:db8::/32"]}] == acl["addresses"]


@pytest.mark.fault(26)
def test_the_gpu_pool_is_its_own_and_the_cluster_leaves_it_alone() -> None:
    made = cluster()
    whole, pool = made.typed(":LkeCluster")[0].inputs, made.typed(":LkeNodePool")[0].inputs
    assert [names.EXTERNAL_POOL_TAG] == whole["externalPoolTags"]
    assert names.EXTERNAL_POOL_TAG in pool["tags"]
    assert ["cpu"] == [inline["label"] for inline in whole["pools"]]
    assert int(CLUSTER_ID) == pool["clusterId"]


@pytest.mark.fault(26)
def test_labels_and_taint_are_the_pool_s_so_that_recycled_nodes_have_them() -> None:
    pool = cluster().typed(":LkeNodePool")[0].inputs
    assert {names.POOL_LABEL: "gpu"} == pool["labels"]
    assert [names.GPU_TAINT] == pool["taints"]


@pytest.mark.fault(23)
def test_the_toleration_matches_the_pool_s_taint() -> None:
    [taint] = cluster().typed(":LkeNodePool")[0].inputs["taints"]
    [toleration] = names.gpu_tolerations()
    assert (taint["key"], taint["effect"]) == (toleration["key"], toleration["effect"])
    assert "Exists" == toleration["operator"]


def test_each_pool_has_the_autoscaler_s_bounds() -> None:
    made = cluster(cpuNodesMin="3", cpuNodesMax="5", gpuNodesMin="1", gpuNodesMax="4")
    [cpu] = made.typed(":LkeCluster")[0].inputs["pools"]
    assert {"min": 3, "max": 5} == cpu["autoscaler"]
    assert {"min": 1, "max": 4} == made.typed(":LkeNodePool")[0].inputs["autoscaler"]


def test_no_pool_names_a_firewall_which_lke_would_ignore() -> None:
    made = cluster()
    [cpu] = made.typed(":LkeCluster")[0].inputs["pools"]
    assert "firewallId" not in {*cpu, *made.typed(":LkeNodePool")[0].inputs}


@pytest.mark.fault(25)
def test_the_provider_gets_the_kubeconfig_as_text_and_as_a_secret() -> None:
    provider = cluster().typed("providers:kubernetes")[0]
    assert KUBECONFIG == provider.inputs["kubeconfig"]
    assert "kubeconfig" in provider.secret


@pytest.mark.fault(25)
def test_another_kubeconfig_for_the_same_cluster_replaces_nothing() -> None:
    provider = cluster().typed("providers:kubernetes")[0]
    assert CLUSTER_ID == provider.inputs["clusterIdentifier"]


@pytest.mark.fault(25)
def test_a_preview_goes_through_while_the_cluster_is_unknown() -> None:
    made = cluster(preview=True)
    assert ["cluster-api"] == [one.name for one in made.typed("providers:kubernetes")]


@pytest.mark.fault(25)
def test_base64_is_undone_once() -> None:
    assert KUBECONFIG == decoded(base64.b64encode(KUBECONFIG.encode()).decode())
