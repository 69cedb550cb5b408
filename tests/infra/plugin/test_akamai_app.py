"""An app on Akamai Functions: created, read, changed, tried before it switches, deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.http_edge import HttpEdge
from fakes.spin import Spin
from nearfar_infra.plugin import component
from nearfar_infra.plugin.akamai_app import AkamaiApp
from nearfar_infra.plugin.kinds import UNKNOWN, KindError, Made

from .conftest import CANARY

KIND = AkamaiApp()


def checked(news: Mapping[str, Any]) -> dict[str, Any]:
    inputs, problems = KIND.check(news)
    assert {} == dict(problems)
    return dict(inputs)


@pytest.fixture
def made(spin: Spin, inputs: dict[str, Any]) -> Made:
    return KIND.create(checked(inputs))


def test_a_created_app_is_built_deployed_and_its_address_read_back(
    spin: Spin, made: Made, edge: HttpEdge
) -> None:
    app = spin.apps["chat"]
    assert (app["id"], edge.endpoint) == (made.id, made.outputs["url"])
    (deploy,) = spin.said("aka", "deploy")
    assert "--create-name" in deploy["argv"]
    assert CANARY == json.loads(deploy["variables"][0]["upstream_keys"])["gpu"]


def test_the_old_domain_is_never_taken_for_the_address(made: Made) -> None:
    assert not made.outputs["url"].endswith("aka.fermyon.tech")


def test_secrets_reach_spin_in_a_file_of_its_owner_and_in_no_other_way(
    spin: Spin, made: Made, edge: HttpEdge, inputs: dict[str, Any]
) -> None:
    KIND.update(made.id, made.outputs, {**checked(inputs), "labels": ["default", "answers"]})
    for call in spin.calls:
        outside = json.dumps([call["argv"], call["stdin"], call["environment"]])
        assert CANARY not in outside
        assert edge.secret not in outside
        assert "LINODE_TOKEN" not in call["environment"]
        assert all(mode == 0o600 for mode in call["modes"])
    assert any(call["variables"] for call in spin.calls)


def test_no_file_with_secrets_is_left(
    spin: Spin, inputs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    KIND.create(checked(inputs))
    assert [] == list((tmp_path / "tmp").iterdir())


def test_the_manifest_has_the_labels_of_the_key_value_stores(
    spin: Spin, inputs: dict[str, Any]
) -> None:
    KIND.create(checked({**inputs, "labels": ["default", "answers"]}))
    assert 'key_value_stores = ["default", "answers"]' in spin.apps["chat"]["manifest"]


def test_an_app_that_an_interrupted_run_left_is_taken_over(
    spin: Spin, made: Made, inputs: dict[str, Any]
) -> None:
    again = KIND.create(checked(inputs))
    assert (made.id, 2) == (again.id, spin.apps["chat"]["version"])


def test_nothing_changed_is_no_change(made: Made, inputs: dict[str, Any]) -> None:
    inputs = checked(inputs)
    assert () == KIND.diff(made.outputs, inputs, inputs).properties


@pytest.mark.parametrize("name", ["variables", "labels", "trialSeconds"])
def test_another_setting_is_a_change_in_place(
    made: Made, inputs: dict[str, Any], name: str
) -> None:
    other = {"variables": {"routes": "{}"}, "labels": ["x"], "trialSeconds": 9}
    change = KIND.diff(made.outputs, checked(inputs), {**checked(inputs), name: other[name]})
    assert ((name,), ()) == (change.properties, change.replaces)


def test_another_name_is_another_app(made: Made, inputs: dict[str, Any]) -> None:
    change = KIND.diff(made.outputs, checked(inputs), {**checked(inputs), "name": "other"})
    assert ("name",) == change.replaces


def test_another_source_is_a_change_and_the_tree_says_which(
    made: Made, inputs: dict[str, Any]
) -> None:
    old = {**checked(inputs), "component": "0" * 64}
    assert ("component",) == KIND.diff(made.outputs, old, checked(inputs)).properties
    assert component.source() == checked(inputs)["component"]


def test_what_is_not_known_yet_is_a_change(made: Made, inputs: dict[str, Any]) -> None:
    later = {**checked(inputs), "variables": {"routes": UNKNOWN}}
    assert ("variables",) == KIND.diff(made.outputs, checked(inputs), later).properties


def test_a_change_is_asked_beside_the_old_app_before_it_reaches_it(
    spin: Spin, made: Made, edge: HttpEdge, inputs: dict[str, Any]
) -> None:
    outputs = KIND.update(made.id, made.outputs, {**checked(inputs), "labels": ["new"]})
    words = [call["argv"][1:4] for call in spin.calls if call["argv"][1] in ("deploy", "app")]
    deploys = [call["argv"] for call in spin.said("aka", "deploy")]
    assert ["chat", "chat-next", made.id] == [argv[-2] for argv in deploys]
    assert ["mock"] == [body["model"] for _, body in edge.asked]
    assert words.index(["app", "delete", "--app-id"]) > 0
    assert {"chat"} == set(spin.apps)
    assert made.outputs["url"] == outputs["url"]


@pytest.mark.parametrize(("status", "stage"), [(503, "model server"), (404, "model"), (401, "key")])
def test_a_change_that_does_not_answer_leaves_the_old_app_as_it_was(
    spin: Spin, made: Made, edge: HttpEdge, inputs: dict[str, Any], status: int, stage: str
) -> None:
    edge.status, edge.stream = status, b'{"error": {"message": "no", "code": "x"}}'
    before = spin.apps["chat"]
    with pytest.raises(KindError, match=rf"stage '{stage}' did not answer .*old one serves on"):
        KIND.update(made.id, made.outputs, {**checked(inputs), "labels": ["new"]})
    assert {"chat": before} == spin.apps


def test_an_app_that_is_gone_is_read_as_gone(spin: Spin, made: Made) -> None:
    KIND.delete(made.id, made.outputs)
    assert KIND.read(made.id, made.outputs) is None
    assert {} == spin.apps


def test_what_is_there_is_read_with_the_inputs_it_was_made_with(made: Made) -> None:
    found = KIND.read(made.id, made.outputs)
    assert found is not None
    assert (made.outputs, None) == (found.outputs, found.inputs)


def test_an_app_of_somebody_else_is_imported_with_the_inputs_that_are_known(made: Made) -> None:
    found = KIND.read(made.id, {})
    assert found is not None
    assert {"name": "chat", "account": ""} == found.inputs
    assert made.outputs["url"] == found.outputs["url"]


def test_deleting_what_is_gone_is_no_error(spin: Spin, made: Made) -> None:
    KIND.delete(made.id, made.outputs)
    KIND.delete(made.id, made.outputs)


def test_a_refusal_of_spin_is_one_line_with_the_next_step(
    spin: Spin, inputs: dict[str, Any]
) -> None:
    spin.fail("aka app list", "you are not logged in")
    with pytest.raises(KindError) as caught:
        KIND.create(checked(inputs))
    assert "you are not logged in. Next step: spin aka login" in str(caught.value)


def test_without_spin_it_says_so(
    inputs: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KindError, match="'spin' was not found"):
        KIND.create(checked(inputs))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": 3}, {"name": "must be of type str"}),
        ({"nmae": "x"}, {"nmae": "is not a property of this resource"}),
        ({"variables": None}, {"variables": "must be set"}),
        ({"name": "x-next"}, {"name": "must not end in '-next', as the candidate's does"}),
    ],
)
def test_a_wrong_property_is_named(
    inputs: dict[str, Any], change: dict[str, Any], why: dict[str, str]
) -> None:
    assert why == KIND.check({**inputs, **change})[1]
