"""Every way in which a configuration can be wrong, each named by its key, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra import given
from nearfar_infra import config, names, project, rules, stack
from nearfar_infra.errors import ConfigError, InfraError, PinsError
from nearfar_infra.fields import FIELDS
from nearfar_infra.project import INFRA

# key → a value of the right type that may not be. Every rule about one key has a case here.
WRONG: dict[str, str] = {
    "region": "Chicago",
    "label": "Near_Far",
    "kubernetesVersion": "1.12",
    "apiAllowed": "[]",
    "cpuPlan": "g2-gpu-rtx4000a1-m",
    "cpuNodesMin": "0",
    "cpuNodesMax": "1000",
    "gpuPlan": "g6-standard-4",
    "gpuNodesMin": "0",
    "gpuNodesMax": "0",
    "contextTokens": "-5",
    "maxRunning": "20000",
    "maxWaiting": "-2",
    "gpuMemoryPercent": "100",
    "replicas": "0",
    "autoscaleMax": "-1",
    "weights": "somewhere",
    "modelVolumeGib": "1",
    "allowedSources": '["anywhere"]',
    "domain": "https://gpu.example.com",
    "dnsZone": "example",
    "acmeEmail": "ops",
    "acmeServer": "letsencrypt",
    "requestsPerMinute": "0",
    "requestsBurst": "0",
    "keyGeneration": "0",
    "redisUrl": "redis://10.0.0.1:6379/0",
    "edgeTarget": "lambda",
    "edgeApp": "My App",
    "edgeRegistry": "no registry at all",
    "edgeReplicas": "0",
    "tenant": "two words",
    "linodeApi": "https://api.linode.com",
    "mirror": "mirror.example/nearfar",
    "snapshotImage": "docker.io/vllm/vllm-openai:latest",
}
SNAPSHOT = f"registry.example/vllm@{given.DIGEST}"
# What contradicts each other: the changed keys, and the key that the message names.
CONTRADICTIONS: dict[str, tuple[dict[str, str], str]] = {
    "fewer CPU nodes at most than at least": (
        {"cpuNodesMin": "4", "cpuNodesMax": "3"},
        "cpuNodesMax",
    ),
    "fewer GPU nodes at most than at least": ({"gpuNodesMin": "2"}, "gpuNodesMax"),
    "a GPU plan that the region lacks": ({"region": "us-east"}, "region"),
    "more servers than GPU nodes": ({"replicas": "2", "weights": "stream"}, "gpuNodesMax"),
    "fewer scaled servers than there are": (
        {"replicas": "3", "autoscaleMax": "2", "gpuNodesMax": "3", "weights": "stream"},
        "autoscaleMax",
    ),
    "scaling to zero without scaling": ({"scaleToZero": "true"}, "scaleToZero"),
    "two servers on a volume of one node": ({"replicas": "2", "gpuNodesMax": "2"}, "weights"),
    "a snapshot without a place for it": (
        {"snapshot": "true", "weights": "stream", "snapshotImage": SNAPSHOT},
        "snapshot",
    ),
    "a domain without its zone": ({"domain": "gpu.example.com", "dnsToken": "t"}, "dnsZone"),
    "a domain without the right to write it": (
        {"domain": "gpu.example.com", "dnsZone": "example.com"},
        "dnsToken",
    ),
    "a domain outside its zone": (
        {"domain": "gpu.example.org", "dnsZone": "example.com", "dnsToken": "t"},
        "domain",
    ),
    "restricted sources and a certificate over port 443": (
        {"allowedSources": '["198.51.100.0/24"]'},
        "domain",
    ),
    "spinkube without a registry": ({"edgeTarget": "spinkube"}, "edgeRegistry"),
    "a model without its commit": (
        {"model": "org/m", "servedName": "m", "modelConfig": "m.json"},
        "modelRevision",
    ),
    "a commit without a model": ({"modelRevision": "a" * 40}, "modelRevision"),
    "scaling by figures that nobody takes": (
        {"autoscaleMax": "1", "monitoring": "false"},
        "monitoring",
    ),
    "an unknown profile": ({"profile": "qwen-900b"}, "profile"),
    "a profile for a CPU": ({"profile": "cpu-small"}, "profile"),
    "more tokens than the model's context": ({"contextTokens": "9000000"}, "contextTokens"),
    "a share of memory that the weights alone exceed": ({"gpuMemoryPercent": "50"}, "gpuPlan"),
}


def problems(**changed: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        given.settings(**changed)
    return refused.value.problems


def test_the_smallest_configuration_is_right() -> None:
    settings = given.settings()
    assert ("us-ord", "g2-gpu-rtx4000a1-m") == (
        settings.cluster.region,
        settings.cluster.gpu.plan.key,
    )


def test_every_rule_about_one_key_has_a_case() -> None:
    assert set(rules._CHECKS) == set(WRONG)


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_named_by_its_key_and_not_repeated(key: str) -> None:
    found = problems(**{key: WRONG[key]})
    assert key in found
    assert WRONG[key] not in found[key] or len(WRONG[key]) < 4


@pytest.mark.parametrize("why", CONTRADICTIONS)
def test_what_cannot_work_together_is_named(why: str) -> None:
    changed, key = CONTRADICTIONS[why]
    assert [key] == list(problems(**changed))


@pytest.mark.parametrize("key", [key for key, field in FIELDS.items() if field.kind != "string"])
def test_a_value_of_another_type_is_named(key: str) -> None:
    assert key in problems(**{key: "[1" if FIELDS[key].kind == "array" else "yes"})


@pytest.mark.parametrize("key", [key for key, field in FIELDS.items() if field.required])
def test_a_key_that_must_be_set_is_named(key: str) -> None:
    raw = {other: value for other, value in given.SMALLEST.items() if other != key}
    with pytest.raises(ConfigError) as refused:
        config.load(raw, root=INFRA)
    assert {key: "must be set"} == refused.value.problems


def test_a_key_that_is_none_is_named() -> None:
    assert {"gpuType": "is not a setting"} == problems(gpuType="h100")


def test_everything_wrong_is_told_at_once_in_one_line() -> None:
    with pytest.raises(ConfigError) as refused:
        given.settings(region="us-east", replicas="x", gpuType="h100", tenant="two words")
    assert {"region", "replicas", "gpuType", "tenant"} == set(refused.value.problems)
    assert 1 == len(str(refused.value).splitlines())
    assert "pulumi config set" in refused.value.next_step


def test_a_secret_stands_in_no_message_and_no_representation() -> None:
    canary = "canary-secret"
    with pytest.raises(ConfigError) as refused:
        given.settings(hfToken=canary, redisUrl=f"redis://{canary}@host:1", region="us-east")
    assert canary not in str(refused.value)
    whole = given.settings(hfToken=canary, redisUrl=f"rediss://u:{canary}@host:1/0")
    assert canary not in repr(whole)


def test_another_model_is_held_against_the_card_s_memory(tmp_path: Path) -> None:
    shape = json.loads(
        (INFRA.parent / "gpu-backend/gpu_backend/models/qwen2.5-7b-instruct.json").read_text()
    )
    shape |= {"num_hidden_layers": shape["num_hidden_layers"] * 3}
    (tmp_path / "large.json").write_text(json.dumps(shape))
    changed = {
        "model": "org/large",
        "modelRevision": "a" * 40,
        "servedName": "large",
        "modelConfig": "large.json",
    }
    with pytest.raises(ConfigError) as refused:
        config.load({**given.SMALLEST, **changed}, root=tmp_path)
    assert ["gpuPlan"] == list(refused.value.problems)
    assert "org/large" in refused.value.problems["gpuPlan"]


def test_what_the_settings_change_reaches_the_engine_s_specification() -> None:
    spec = given.settings(maxRunning="8", maxWaiting="0", contextTokens="4096").serving.spec
    assert (8, 8, 4096) == (spec.max_num_seqs, spec.max_num_queued_reqs, spec.context_tokens)


def test_numbers_that_stand_for_the_profile_s_change_nothing() -> None:
    unset = {key: str(field.unset) for key, field in FIELDS.items() if field.unset is not None}
    assert given.settings().serving.spec == given.settings(**unset).serving.spec


def test_the_project_s_file_says_what_the_table_says() -> None:
    assert project.text() == project.FILE.read_text("utf-8")


def test_every_key_of_the_project_s_file_is_typed_described_and_has_a_value() -> None:
    for key, entry in project.settings()["config"].items():
        assert key.startswith(f"{names.PROJECT}:")
        assert entry["description"].endswith(".")
        assert entry["type"] in ("string", "integer", "boolean", "array")
        assert entry["default"] is not None


def test_the_defaults_of_the_project_s_file_are_those_of_the_table() -> None:
    written = {
        key.partition(":")[2]: value if isinstance(value, str) else json.dumps(value)
        for key, value in ((k, e["default"]) for k, e in project.settings()["config"].items())
    }
    assert given.settings() == config.load({**written, **given.SMALLEST}, root=INFRA)


# A run: configuration, token and digests.

PINS = "\n".join(f'"{name}" = "{digest}"' for name, digest in given.sources().pins.items())
VALUES = {f"nearfar:{key}": value for key, value in given.SMALLEST.items()}


def test_a_run_has_settings_sources_and_token(tmp_path: Path) -> None:
    (tmp_path / "pins.toml").write_text(PINS)
    found = stack.given({**VALUES, "kubernetes:x": "1"}, {"LINODE_TOKEN": "t"}, tmp_path)
    assert ("t", given.settings()) == (found.token, found.settings)


def test_the_token_of_the_configuration_comes_before_the_environment_s(tmp_path: Path) -> None:
    (tmp_path / "pins.toml").write_text(PINS)
    found = stack.given({**VALUES, "linode:token": "c"}, {"LINODE_TOKEN": "e"}, tmp_path)
    assert "c" == found.token
    assert "token=" not in repr(found)


def test_a_missing_token_is_one_line_that_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "pins.toml").write_text(PINS)
    with pytest.raises(InfraError, match="LINODE_TOKEN") as refused:
        stack.given(VALUES, {}, tmp_path)
    assert 1 == len(str(refused.value).splitlines())


def test_an_image_without_a_digest_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "pins.toml").write_text(PINS.replace("docker.io/library/traefik:", "other:"))
    with pytest.raises(PinsError, match=r"docker\.io/library/traefik:v") as refused:
        stack.given(VALUES, {"LINODE_TOKEN": "t"}, tmp_path)
    assert 1 == len(refused.value.images)
    assert "nearfar images pin" in refused.value.next_step


def test_an_image_that_is_not_asked_for_needs_no_digest() -> None:
    asked = given.sources()
    unpinned = [image for image in asked.pins if "grafana" in image]
    assert unpinned
    fewer = type(asked)(None, {k: v for k, v in asked.pins.items() if k not in unpinned})
    fewer.require(given.settings(monitoring="false", edgeTarget="none").parts)
    with pytest.raises(PinsError):
        fewer.require(given.settings().parts)


@pytest.mark.parametrize("text", ["not toml", '"image:tag" = "latest"', '"image:tag" = 1'])
def test_a_file_of_digests_that_is_none_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "pins.toml").write_text(text)
    with pytest.raises(InfraError, match=r"pins\.toml cannot be read"):
        stack.given(VALUES, {"LINODE_TOKEN": "t"}, tmp_path)
