"""The played parts by themselves: what they refuse, and what they find."""

from __future__ import annotations

import base64
import json
import tarfile
from io import BytesIO
from pathlib import Path

import jsonschema
import pytest
import yaml

from nearfar_infra import names, sources, versions
from nearfar_infra.manifests import gpu

from . import binaries, canary, charts, checks, plan
from .linode import sdk
from .linode.account import Account

POOL = "linode:index/lkeNodePool:LkeNodePool"


def test_inputs_that_the_sdk_allows_are_taken() -> None:
    taints = [{"key": "a", "value": "b", "effect": "NoSchedule"}]
    given = {"clusterId": 7.0, "type": "g6-standard-2", "nodeCount": 2.0, "taints": taints}
    assert {} == sdk.problems(sdk.arguments(POOL), given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"clusterId": "7", "type": "a"}, "clusterId"),
        ({"clusterId": 7.5, "type": "a"}, "clusterId"),
        ({"clusterId": 7.0}, "type"),
        ({"clusterId": 7.0, "type": "a", "count": 2.0}, "count"),
        ({"clusterId": 7.0, "type": "a", "labels": {"x": 1.0}}, "labels.x"),
        ({"clusterId": 7.0, "type": "a", "tags": "x"}, "tags"),
        (
            {"clusterId": 7.0, "type": "a", "taints": [{"key": "k", "value": "v"}]},
            "taints[0].effect",
        ),
    ],
)
def test_inputs_that_the_sdk_does_not_allow_are_named(given: dict[str, object], named: str) -> None:
    assert [named] == list(sdk.problems(sdk.arguments(POOL), given))


def test_a_resource_that_the_sdk_does_not_have_is_none() -> None:
    with pytest.raises(KeyError):
        sdk.arguments("linode:index/lkeCloud:LkeCloud")


def test_an_account_keeps_its_state_and_uses_up_its_faults(tmp_path: Path) -> None:
    account = Account(tmp_path / "account.json")
    with account.open() as state:
        number = state.add("Volume", {"label": "data"})
        state.faults["create Volume"] = 1
    with account.open() as state:
        assert [f"Volume {number} data"] == state.billed()
        assert state.fails("create Volume")
    assert not account.read().fails("create Volume")


@pytest.mark.parametrize("chart", charts.names())
def test_a_stand_in_chart_refuses_a_value_that_the_real_one_does_not_have(chart: str) -> None:
    with tarfile.open(fileobj=BytesIO(charts.archive(chart))) as packed:
        text = packed.extractfile(f"{chart}/values.schema.json")
        assert text is not None
        schema = json.load(text)
    with pytest.raises(jsonschema.ValidationError, match="notAValue"):
        jsonschema.validate({"notAValue": 1}, schema)


def test_a_misspelt_value_of_the_gpu_operator_is_refused() -> None:
    schema = json.loads(
        (Path(charts.__file__).parent / "charts/gpu-operator/values.schema.json").read_text()
    )
    values = gpu.values("mirror.example")
    jsonschema.validate(values, schema)
    values["daemonsets"]["toleration"] = values["daemonsets"].pop("tolerations")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, schema)


def test_the_repository_holds_every_chart_under_its_pinned_version() -> None:
    index = yaml.safe_load(charts.index("http://mirror/charts"))
    for name in charts.names():
        assert versions.charts()[name].version == index["entries"][name][0]["version"]


def test_every_image_gets_a_digest(tmp_path: Path) -> None:
    pins = sources.read_pins(plan.pins(tmp_path / "pins.toml", vllm="a" * 64))
    assert f"sha256:{'a' * 64}" == pins[versions.images()["vllm"].tagged]
    assert {image.tagged for image in versions.images().values()} == set(pins)


@pytest.mark.parametrize("around", ["", "user:", "a longer text and: "])
def test_a_secret_is_found_in_every_form(around: str, tmp_path: Path) -> None:
    whole = f"{around}{canary.LINODE_TOKEN} and more".encode()
    for text in (whole, base64.b64encode(whole)):
        (tmp_path / "state.json").write_bytes(b"{" + text + b"}")
        assert ["state: state.json"] == canary.found({"state": tmp_path}, (canary.LINODE_TOKEN,))


def test_nothing_is_found_where_no_secret_is(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("an engine said something")
    assert [] == canary.found({"log": tmp_path}, canary.PLANTED)


def test_a_selector_matches_by_labels_and_by_expressions() -> None:
    labels = names.selector("vllm")
    some = {
        "matchExpressions": [
            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["vllm"]}
        ]
    }
    assert checks.selects({}, labels)
    assert checks.selects({"matchLabels": labels}, labels)
    assert checks.selects(some, labels)
    assert not checks.selects({"matchLabels": names.selector("redis")}, labels)
    assert not checks.selects({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, labels)


def test_the_build_is_named_after_what_goes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    before = binaries.key()
    monkeypatch.setattr(binaries, "LDFLAGS", "-s")
    assert before != binaries.key()


def test_nothing_of_the_build_names_a_registry() -> None:
    module = Path(binaries.__file__).parent / "go"
    for path in module.rglob("*.*"):
        text = path.read_text()
        assert "GOPROXY" not in text
        assert "://" not in text.replace("k8s.io/", ""), path.name
