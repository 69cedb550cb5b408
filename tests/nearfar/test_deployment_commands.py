"""The commands around a deployment, against an imitation of Linode's API that checks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import spin as stand_in
from fakes.linode import TOKEN, FakeLinode, serving
from nearfar import deploy_check, linode
from nearfar.checkout import here
from nearfar.errors import Missing, Refused
from nearfar.leftovers import Cluster, find
from nearfar.linode import Linode
from nearfar_infra import bill, config, prices
from nearfar_infra.plans import PLANS

Run = Callable[..., Any]


@pytest.fixture
def account() -> Iterator[FakeLinode]:
    with serving(FakeLinode()) as fake:
        yield fake


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LINODE_TOKEN", TOKEN)
    return TOKEN


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for Spin and Pulumi, first on PATH."""
    folder = stand_in.install(tmp_path / "bin").folder
    (folder / "pulumi").write_text("#!/bin/sh\necho v3.274.1\n")
    (folder / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def doctor(run: Run, account: FakeLinode, *more: str) -> dict[str, dict[str, str]]:
    """The findings by name."""
    document = run(
        "doctor", "--deploy", "--json", "--set", f"linodeApi={account.api}", *more
    ).document
    return {item["name"]: item for item in document["findings"]}


def test_an_account_that_has_everything_is_ready_but_for_the_digests(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    found = doctor(run, account)
    lacking = {name for name, item in found.items() if item["verdict"] == "missing"}
    assert lacking <= {"digests"}
    assert {"pulumi", "spin", "spin aka", "spin login", "token", "region", "plans"} <= set(found)


def test_the_token_is_shown_nowhere(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    ran = run("doctor", "--deploy", "--set", f"linodeApi={account.api}")
    assert TOKEN not in ran.out + ran.err


def test_without_a_token_linode_is_not_asked_and_the_step_names_the_variable(
    run: Run, account: FakeLinode, monkeypatch: pytest.MonkeyPatch, programs: Path
) -> None:
    monkeypatch.delenv("LINODE_TOKEN", raising=False)
    found = doctor(run, account)["token"]
    assert ("missing", True) == (found["verdict"], "LINODE_TOKEN" in found["next_step"])
    assert [] == account.asked


def test_a_token_that_is_not_valid_is_one_finding(
    run: Run, account: FakeLinode, monkeypatch: pytest.MonkeyPatch, programs: Path
) -> None:
    monkeypatch.setenv("LINODE_TOKEN", "expired")
    found = doctor(run, account)
    assert "Invalid Token" in found["token"]["found"]
    assert "region" not in found


@pytest.mark.parametrize("scope", deploy_check.SCOPES)
def test_a_scope_that_is_lacking_is_named_with_what_it_is_for(
    run: Run, account: FakeLinode, token: str, programs: Path, scope: str
) -> None:
    account.scopes = " ".join(sorted(set(deploy_check.SCOPES) - {scope}))
    found = doctor(run, account)["token"]
    assert ("missing", f"lacks {scope} ({deploy_check.SCOPES[scope]})") == (
        found["verdict"],
        found["found"],
    )


def test_writing_includes_reading_and_a_domain_needs_its_own_scope(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    account.scopes = ",".join(scope.replace("only", "write") for scope in deploy_check.SCOPES)
    assert "ok" == doctor(run, account)["token"]["verdict"]
    domain = [
        word
        for pair in ("domain=gpu.example.com", "dnsZone=example.com", "dnsToken=x")
        for word in ("--set", pair)
    ]
    assert "domains:read_write" in doctor(run, account, *domain)["token"]["found"]


@pytest.mark.parametrize(
    "availability",
    [
        [],
        [{"region": "us-ord", "plan": "g2-gpu-rtx4000a1-m", "available": False}],
    ],
)
def test_a_gpu_plan_that_is_sold_out_or_not_offered_is_told(
    run: Run,
    account: FakeLinode,
    token: str,
    programs: Path,
    availability: list[dict[str, object]],
) -> None:
    account.objects["/regions/us-ord/availability"] = availability
    found = doctor(run, account)["plans"]
    assert ("missing", "g2-gpu-rtx4000a1-m not available in us-ord") == (
        found["verdict"],
        found["found"],
    )


def test_a_region_without_kubernetes_is_told(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    account.objects["/regions/us-ord"]["capabilities"].remove("Kubernetes")
    assert "us-ord lacks Kubernetes" == doctor(run, account)["region"]["found"]


def test_a_version_that_lke_offers_no_more_is_told_with_those_that_it_does(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    account.collections["/lke/versions"] = [{"id": "1.36"}]
    found = doctor(run, account)["kubernetes"]
    assert ("missing", "set kubernetesVersion to one of 1.36.") == (
        found["verdict"],
        found["next_step"],
    )


def test_one_refusal_ends_no_other_check(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    account.refused["/linode/instances"] = 403
    found = doctor(run, account)
    assert ("missing", "ok") == (found["quota"]["verdict"], found["region"]["verdict"])


def test_an_old_spin_and_an_old_plugin_are_told(
    run: Run, account: FakeLinode, token: str, programs: Path
) -> None:
    (programs / "spin").write_text(
        '#!/bin/sh\n[ "$1" = plugins ] && echo "aka 0.3.1 [installed]" || echo "spin 3.4.0"\n'
    )
    found = doctor(run, account)
    assert "3.4.0, 4.0.0 or newer is needed" == found["spin"]["found"]
    assert "0.3.1, 0.4.0 or newer is needed" == found["spin aka"]["found"]


def test_wrong_settings_are_bad_input_and_named(run: Run) -> None:
    ran = run("doctor", "--deploy", "--set", "gpuPlan=nope", "--set", "region=eu-nowhere")
    assert 2 == ran.code
    assert "gpuPlan" in ran.err
    assert 2 == run("cost", "--set", "nope=1").code


# What is left of a cluster.

LEFT: dict[str, list[dict[str, Any]]] = {
    "/nodebalancers": [
        {"id": 1, "label": "ccm-1", "lke_cluster": {"id": 7, "label": "chat"}, "tags": []},
        {"id": 2, "label": "ccm-2", "lke_cluster": None, "tags": ["nearfar", "chat"]},
        {"id": 3, "label": "ccm-3", "lke_cluster": {"id": 8, "label": "other"}, "tags": []},
    ],
    "/volumes": [
        {"id": 4, "label": "pvc1", "size": 40, "linode_label": "lke7-1-a", "tags": []},
        {"id": 5, "label": "pvc2", "size": 10, "linode_label": None, "tags": []},
        {"id": 6, "label": "pvc3", "size": 10, "linode_label": "lke70-1-a", "tags": []},
        {"id": 7, "label": "mine", "size": 10, "linode_label": None, "tags": []},
    ],
    "/networking/firewalls": [
        {"id": 8, "label": "lke-7", "tags": [], "entities": []},
        {"id": 9, "label": "web", "tags": [], "entities": [{"label": "lke7-1-a"}]},
        {"id": 10, "label": "lke-70", "tags": [], "entities": []},
    ],
    "/linode/instances": [
        {"id": 11, "label": "lke7-1-a", "type": "g2-gpu-rtx4000a1-m", "lke_cluster_id": 7},
        {"id": 12, "label": "web", "type": "g6-standard-2", "lke_cluster_id": None},
    ],
}


def left(account: FakeLinode, cluster: Cluster) -> dict[int, bool]:
    """Id → whether it is the cluster's for certain."""
    return {item.id: item.sure for item in find(Linode(account.api, TOKEN), cluster)}


def test_everything_of_the_cluster_is_found_and_nothing_of_others(account: FakeLinode) -> None:
    account.collections |= LEFT
    certain = {1, 2, 4, 8, 9, 11}
    assert dict.fromkeys(certain, True) | {5: False} == left(account, Cluster("chat", "7"))


def test_with_the_label_alone_what_names_only_an_id_is_not_claimed(account: FakeLinode) -> None:
    account.collections |= LEFT
    assert {1: True, 2: True, 5: False} == left(account, Cluster("chat"))


def test_a_cluster_that_still_runs_tells_its_id_by_its_label(account: FakeLinode) -> None:
    account.collections |= LEFT
    account.collections["/lke/clusters"] = [{"id": 7, "label": "chat", "control_plane": {}}]
    assert {7, 1, 2, 4, 8, 9, 11} <= set(left(account, Cluster("chat")))


def test_the_command_tells_monthly_prices_and_fails_while_something_is_left(
    run: Run, account: FakeLinode, token: str
) -> None:
    account.collections |= LEFT
    words = ("leftovers", "--label", "chat", "--cluster-id", "7", "--api", account.api)
    document = run(*words, "--json").document
    by_id = {item["id"]: item["monthly"] for item in document["left"]}
    assert (10.0, 4.0, 446.0) == (by_id[1], round(by_id[4], 2), by_id[11])
    assert 10 + 10 + 4 + 446 == pytest.approx(document["monthly_usd"])
    ran = run(*words)
    assert 1 == ran.code
    assert "attached to nothing" in ran.out


def test_an_empty_account_is_a_good_end(run: Run, account: FakeLinode, token: str) -> None:
    ran = run("leftovers", "--label", "chat", "--api", account.api)
    assert (0, "nothing is left of chat\n") == (ran.code, ran.out)


def test_leftovers_without_a_token_is_bad_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINODE_TOKEN", raising=False)
    assert 2 == run("leftovers", "--label", "chat").code


def test_every_page_is_read(account: FakeLinode) -> None:
    account.collections["/volumes"] = [{"id": n} for n in range(5)]
    assert 5 == len(list(Linode(account.api, TOKEN).all("/volumes")))
    assert ["/volumes"] * 3 == account.asked


def test_an_api_that_is_away_is_told() -> None:
    with pytest.raises(Missing, match="does not answer"):
        Linode("http://127.0.0.1:1/v4", TOKEN).one("/profile")


def test_an_error_of_the_api_keeps_its_reason(account: FakeLinode) -> None:
    with pytest.raises(Refused, match="Invalid Token") as caught:
        Linode(account.api, "wrong").one("/profile")
    assert 401 == caught.value.status


@pytest.mark.parametrize(
    ("scopes", "wanted", "enough"),
    [
        ("*", "lke:read_write", True),
        ("lke:read_write", "lke:read_only", True),
        ("lke:read_only", "lke:read_write", False),
        ("linodes:read_write", "lke:read_only", False),
    ],
)
def test_scopes_are_read_as_linode_means_them(scopes: str, wanted: str, enough: bool) -> None:
    assert enough == linode.may(frozenset(scopes.split()), wanted)


# What it costs.


def test_the_default_deployment_costs_what_its_parts_cost_together(run: Run) -> None:
    document = run("cost", "--json").document
    by_name = {part["name"]: part["monthly"] for part in document["parts"]}
    assert [446.0, 446.0] == by_name["GPU nodes, g2-gpu-rtx4000a1-m"]
    assert [96.0, 144.0] == by_name["CPU nodes, g6-standard-4"]
    for end in (0, 1):
        total = sum(part["monthly"][end] for part in document["parts"])
        assert total == pytest.approx(document["monthly"][end])


def test_settings_change_the_bill(run: Run) -> None:
    plain = run("cost", "--json").document["monthly"][0]
    highly = run("cost", "--json", "--set", "highAvailability=true").document["monthly"][0]
    two = run("cost", "--json", "--set", "gpuNodesMin=2", "--set", "gpuNodesMax=2").document
    assert 60.0 == pytest.approx(highly - plain)
    assert 446.0 == pytest.approx(two["monthly"][0] - plain)


def test_the_table_says_when_and_where_each_price_was_read(run: Run) -> None:
    for part in run("cost", "--json").document["parts"]:
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", part["as_of"])
        assert part["source"]
    out = run("cost").out
    assert "not counted: the edge on Akamai Functions" in out


def test_every_plan_that_a_pool_can_have_has_a_price() -> None:
    assert set(PLANS) == set(prices.plans())


@pytest.mark.parametrize("name", sorted(prices.plans()))
def test_an_hour_and_a_month_fit_together(name: str) -> None:
    price = prices.plans()[name]
    assert price.monthly == pytest.approx(price.hourly * prices.HOURS, rel=0.011)


def test_a_part_that_is_not_asked_for_is_not_billed() -> None:
    needed = {"apiAllowed": json.dumps(["192.0.2.1/32"]), "acmeEmail": "a@b.example"}
    root = here().root / "infra"

    def names(**changed: str) -> set[str]:
        return {name for name, _ in bill.volumes(config.load(needed | changed, root=root))}

    assert {"certificates", "model", "gates' Redis", "metrics", "traces"} == names()
    assert {"certificates", "model", "gates' Redis"} == names(monitoring="false")
    assert "gates' Redis" not in names(redisUrl="rediss://u:p@r.example:6379/0")
