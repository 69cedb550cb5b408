from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gpu_backend import spec
from gpu_backend.errors import GpuBackendError, SpecError
from gpu_backend.spec import NOT_IN_ANSWER, ServingSpec

# One other valid value for each field; `device` changes several fields and has its own test.
OTHER: dict[str, Any] = {
    "profile": "another",
    "model": "Qwen/Qwen2.5-7B",
    "revision": "0" * 40,
    "served_name": "another-name",
    "context_tokens": 4096,
    "max_num_seqs": 8,
    "max_num_queued_reqs": 128,
    "max_num_queued_tokens": 131072,
    "weights_from": "package",
    "gpu": "l40s",
    "gpu_memory_utilization": 0.8,
    "dtype": "float16",
    "enforce_eager": True,
    "per_request_metrics": False,
    "tool_call_parser": None,
    "seed": 7,
    "middleware": ("some.gate.Gate",),
    "engine_version": "0.32.1",
}


@pytest.fixture
def qwen() -> ServingSpec:
    return spec.profile("qwen2.5-7b-rtx4000ada")


@pytest.mark.parametrize("name", sorted(spec.PROFILES))
def test_a_profile_is_valid_and_carries_its_own_name(name: str) -> None:
    assert name == spec.profile(name).profile


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(GpuBackendError, match=r"cpu-large.*qwen2\.5-7b-rtx4000ada, cpu-small"):
        spec.profile("cpu-large")


def test_the_qwen_profile_is_pinned_to_a_commit(qwen: ServingSpec) -> None:
    assert "a09a35458c702b33eeacc393d103063234e8bc28" == qwen.revision


def test_all_wrong_fields_are_named_at_once(qwen: ServingSpec) -> None:
    with pytest.raises(SpecError) as caught:
        replace(qwen, context_tokens=0, gpu_memory_utilization=1.5, dtype="int3", revision="main")
    assert {"context_tokens", "gpu_memory_utilization", "dtype", "revision"} == set(
        caught.value.problems
    )
    assert all(field in str(caught.value) for field in caught.value.problems)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("profile", " "),
        ("model", ""),
        ("revision", None),
        ("revision", "main"),
        ("served_name", "two words"),
        ("served_name", "--api-key"),
        ("weights_from", "s3"),
        ("context_tokens", -1),
        ("context_tokens", "2048"),
        ("context_tokens", True),
        ("max_num_seqs", 0),
        ("max_num_queued_reqs", 15),
        ("max_num_queued_tokens", 8191),
        ("gpu_memory_utilization", None),
        ("gpu_memory_utilization", 0.0),
        ("gpu_memory_utilization", 1.0),
        ("gpu_memory_utilization", float("nan")),
        ("cpu_kv_cache_gib", 1),
        ("gpu", None),
        ("dtype", "auto"),
        ("per_request_metrics", 1),
        ("tool_call_parser", ""),
        ("seed", -1),
        ("middleware", ("gate",)),
        ("middleware", ["some.gate.Gate"]),
        ("middleware", ("some.gate.Gate; rm",)),
        ("engine_version", "latest"),
    ],
)
def test_a_wrong_value_is_named_alone(qwen: ServingSpec, field: str, value: Any) -> None:
    with pytest.raises(SpecError) as caught:
        replace(qwen, **{field: value})
    assert [field] == list(caught.value.problems)


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpu_memory_utilization", 0.9), ("cpu_kv_cache_gib", None), ("gpu", "l4")],
)
def test_a_cpu_has_no_settings_of_a_gpu(field: str, value: Any) -> None:
    with pytest.raises(SpecError) as caught:
        replace(spec.profile("cpu-small"), **{field: value})
    assert [field] == list(caught.value.problems)


def test_a_cpu_is_only_served_eagerly_since_compiled_it_answers_wrongly() -> None:
    with pytest.raises(SpecError, match="enforce_eager must be true on a CPU"):
        replace(spec.profile("cpu-small"), enforce_eager=False)


def test_the_serving_hash_covers_exactly_what_can_change_an_answer(qwen: ServingSpec) -> None:
    assert {f.name for f in fields(qwen)} - {"device", "cpu_kv_cache_gib"} == set(OTHER)
    for field, value in OTHER.items():
        other = replace(qwen, **{field: value})
        same = other.serving_hash == qwen.serving_hash
        assert (field in NOT_IN_ANSWER) == same, field


def test_the_serving_hash_does_not_see_the_size_of_the_cpu_cache() -> None:
    small = spec.profile("cpu-small")
    assert small.serving_hash == replace(small, cpu_kv_cache_gib=4).serving_hash


def test_the_serving_hash_differs_between_profiles_and_stays_the_same_between_calls() -> None:
    hashes = {spec.profile(name).serving_hash for name in spec.PROFILES}
    assert len(spec.PROFILES) == len(hashes)
    assert hashes == {spec.profile(name).serving_hash for name in spec.PROFILES}


def test_the_gate_changes_no_answer_and_so_no_hash() -> None:
    small = spec.profile("cpu-small")
    assert small.gated().serving_hash == small.serving_hash
    other = replace(small, middleware=("some.other.Class",))
    assert other.serving_hash != small.serving_hash


def test_the_gate_stands_before_every_other_middleware_and_once() -> None:
    small = replace(spec.profile("cpu-small"), middleware=(spec.GATE, "some.other.Class"))
    assert ("some.other.Class", spec.GATE) == small.gated().gated().middleware
