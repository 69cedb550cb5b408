"""The edge's three targets as they are declared, without an engine."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from pulumi.runtime import MockResourceArgs

from edge_frontend import settings as edge_settings
from infra import declared
from infra.declared import Declared, Program, Recorder
from infra.given import settings, sources
from nearfar.checkout import here
from nearfar_infra.components.edge import Edge, EdgeArgs
from nearfar_infra.components.first_answer import FirstAnswer, FirstAnswerArgs

SECRETS = {
    "upstream-key": "u" * 43,
    "gate-secret": "g" * 43,
    "key-secret": "k" * 43,
    "key-secret-previous": "o" * 43,
}
# What the plugin would answer.
MADE = {
    "nearfar:index:AkamaiApp": {"url": "https://app.example", "component": "c0ffee"},
    "nearfar:index:ApiKey": {"key": "nf_first.key"},
    "nearfar:index:EdgeImage": {"reference": "registry.example/acme/edge@sha256:" + "a" * 64},
    "nearfar:index:SpinArtifact": {"reference": "registry.example/acme/edge:c0ffee"},
    "nearfar:index:RandomSecret": {"value": "p" * 43, "previous": ""},
    "nearfar:index:FirstAnswer": {"answer": "Hello."},
}
SETTINGS_OF_THE_SECRET = (
    "key_secret",
    "key_secret_previous",
    "upstream_keys",
    "gate_secret",
    "store",
)
TARGETS = {
    "akamai-functions": {},
    "wasmtime": {"edgeRegistry": "registry.example/acme/edge"},
    "spinkube": {"edgeRegistry": "registry.example/acme/edge"},
}


class Plugin(Recorder):
    """Answers as the plugin does."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        made, outputs = super().new_resource(args)
        return made, outputs | MADE.get(args.typ, {})


def declare(target: str, after: Callable[[Edge], object] = lambda _: None, **more: str) -> Program:
    chosen = settings(edgeTarget=target, **TARGETS[target], **more)

    def secret(name: str) -> pulumi.Output[str]:
        return pulumi.Output.secret(SECRETS[name])

    def run() -> None:
        edge = Edge(
            "edge",
            EdgeArgs(
                namespace="nearfar-edge",
                sources=sources(),
                edge=chosen.edge,
                spec=chosen.serving.spec,
                public_url="https://model.example",
                upstream_key=secret("upstream-key"),
                gate_secret=secret("gate-secret"),
                key_secret=secret("key-secret"),
                key_secret_previous=secret("key-secret-previous"),
                engine_ready="ready",
            ),
        )
        after(edge)

    return declared.declare(run, recorder=Plugin())


def names(program: Program) -> list[str]:
    return [found.name for found in program.resources if ":components:" not in found.type]


@pytest.fixture(scope="module", params=list(TARGETS))
def any_target(request: pytest.FixtureRequest) -> Program:
    return declare(request.param)


def test_an_app_on_akamai_functions_gets_settings_that_an_edge_takes() -> None:
    app = declare("akamai-functions").one("AkamaiApp")
    found = edge_settings.from_variables(app.inputs["variables"])
    assert ("kv:default", 30_000) == (found.store, found.deadline_ms)
    (upstream,) = found.routes.upstreams.values()
    found_at = (upstream.scheme, upstream.authority, upstream.kind)
    assert ("https", "model.example", "vllm") == found_at
    assert {"gpu": SECRETS["upstream-key"]} == dict(found.upstream_keys)
    assert (SECRETS["key-secret"], SECRETS["key-secret-previous"]) == found.key_secrets
    assert "qwen2.5-7b-instruct" in found.routes.models
    assert ["default"] == app.inputs["labels"]


def test_the_manifest_knows_every_variable_that_the_app_is_given() -> None:
    manifest = tomllib.loads((here().edge / "spin.toml").read_text())
    app = declare("akamai-functions").one("AkamaiApp")
    assert set(app.inputs["variables"]) <= set(manifest["variables"])
    required = {name for name, entry in manifest["variables"].items() if entry.get("required")}
    assert required <= set(app.inputs["variables"])


def test_secrets_are_marked_wherever_they_go(any_target: Program) -> None:
    hidden = {*SECRETS.values(), "nf_first.key", "p" * 43}
    for found in any_target.resources:
        for key, value in found.inputs.items():
            if any(secret in str(value) for secret in hidden):
                assert key in found.secret, f"{found.name} shows a secret in {key}"


def test_names_are_no_secrets(any_target: Program) -> None:
    for found in any_target.resources:
        assert "metadata" not in found.secret, found.name


def test_the_first_key_is_for_the_configured_tenant(any_target: Program) -> None:
    assert "first" == any_target.one("ApiKey").inputs["tenant"]


def test_the_last_step_follows_the_component_and_its_settings() -> None:
    def ask(edge: Edge) -> object:
        return FirstAnswer(
            "answer", FirstAnswerArgs(edge.url, edge.first_key, "m", "k" * 43, edge.follows)
        )

    program = declare("akamai-functions", ask)
    (asked,) = [one for one in program.resources if one.type == "nearfar:index:FirstAnswer"]
    assert "https://app.example" == asked.inputs["url"]
    assert "c0ffee" == asked.inputs["follows"][0]
    assert {"apiKey", "operatorSecret"} <= asked.secret


@pytest.mark.parametrize(
    ("target", "version"), [("wasmtime", "edge-deployment"), ("spinkube", "edge-app")]
)
def test_clients_are_led_to_a_version_after_it_was_tried(target: str, version: str) -> None:
    order = names(declare(target))
    steps = ["edge-settings", version, "edge-candidate", "edge-trial", "edge-service"]
    assert steps == [name for name in order if name in steps]


@pytest.mark.parametrize("target", ["wasmtime", "spinkube"])
def test_a_change_of_settings_is_a_version_of_its_own_and_the_same_service(target: str) -> None:
    def parts(guardrails: str) -> tuple[str, dict[str, Any], str]:
        program = declare(target, guardrails=guardrails)
        service = next(one for one in program.all("Service") if one.called == "edge")
        return program.one("Job").called, service.inputs["spec"]["selector"], service.called

    one, other = parts("none@1"), parts("standard@1")
    assert one[0] != other[0]
    assert one[1] != other[1]
    assert one[2] == other[2]
    assert one == parts("none@1")


def test_the_inside_edge_asks_the_model_without_leaving_the_cluster() -> None:
    program = declare("wasmtime")
    secret = next(one for one in program.all("Secret") if one.name == "edge-settings")
    found = edge_settings.from_variables(
        {
            name.removeprefix("NEARFAR_").lower(): value
            for name, value in secret.inputs["stringData"].items()
        }
    )
    (upstream,) = found.routes.upstreams.values()
    assert "model.nearfar-serving.svc.cluster.local:8000" == upstream.authority
    assert found.store.startswith("redis://edge:")


def test_a_registry_with_a_user_gets_a_pull_secret() -> None:
    program = declare("wasmtime", edgeRegistryUser="bot", edgeRegistryPassword="hunter2hunter2")
    (secret,) = [one for one in program.all("Secret") if one.called == "edge-registry"]
    assert "registry.example" in secret.inputs["stringData"][".dockerconfigjson"]
    pod = program.one("Deployment", program.one("Job").called.removesuffix("-trial"))
    assert [{"name": "edge-registry"}] == pod.inputs["spec"]["template"]["spec"]["imagePullSecrets"]


def test_spinkube_brings_pinned_charts_and_runs_spin_4() -> None:
    program = declare("spinkube")
    charts = {one.inputs["chart"]: one.inputs["version"] for one in program.all("Release")}
    assert {"cert-manager", "oci://ghcr.io/spinframework/charts/spin-operator"} == set(charts)
    executor = program.one("SpinAppExecutor").inputs["spec"]["deploymentConfig"]
    assert executor["spinImage"].startswith("ghcr.io/spinframework/spin:v4")
    assert "@sha256:" in executor["spinImage"]
    kinds = [one.inputs["spec"]["names"]["kind"] for one in program.all("CustomResourceDefinition")]
    assert ["SpinApp", "SpinAppExecutor"] == sorted(kinds)


def test_no_secret_stands_in_the_spin_app() -> None:
    app: Declared = declare("spinkube").one("SpinApp")
    shown = str(app.inputs["spec"])
    assert not [secret for secret in SECRETS.values() if secret in shown]
    from_secret = {one["name"] for one in app.inputs["spec"]["variables"] if "valueFrom" in one}
    assert set(SETTINGS_OF_THE_SECRET) == from_secret
