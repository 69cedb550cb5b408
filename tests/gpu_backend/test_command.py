from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_backend import command, spec
from gpu_backend.errors import GpuBackendError

QWEN = spec.profile("qwen2.5-7b-rtx4000ada")
SMALL = spec.profile("cpu-small")


def value_of(flags: tuple[str, ...], flag: str) -> str:
    return flags[flags.index(flag) + 1]


def test_the_gpu_flags_say_what_the_spec_says() -> None:
    flags = command.flags(QWEN, host="192.0.2.1", port=8000)
    assert {
        "--model": "Qwen/Qwen2.5-7B-Instruct",
        "--revision": "a09a35458c702b33eeacc393d103063234e8bc28",
        "--served-model-name": "qwen2.5-7b-instruct",
        "--host": "192.0.2.1",
        "--port": "8000",
        "--max-model-len": "8192",
        "--max-num-seqs": "16",
        "--max-num-queued-reqs": "24",
        "--max-num-queued-tokens": "65536",
        "--dtype": "bfloat16",
        "--seed": "0",
        "--generation-config": "vllm",
        "--gpu-memory-utilization": "0.92",
        "--tool-call-parser": "hermes",
    } == {flag: value_of(flags, flag) for flag in flags if _takes_a_value(flags, flag)}
    assert "--enable-per-request-metrics" in flags
    assert "--enable-auto-tool-choice" in flags
    assert "--enforce-eager" not in flags


def _takes_a_value(flags: tuple[str, ...], word: str) -> bool:
    after = flags.index(word) + 1
    return word.startswith("--") and after < len(flags) and not flags[after].startswith("--")


def test_a_packaged_model_is_served_from_its_folder_without_a_revision() -> None:
    flags = command.flags(SMALL, host="127.0.0.1", port=1, model_dir=Path("models/small"))
    assert "models/small" == value_of(flags, "--model")
    assert "--revision" not in flags
    assert "--enforce-eager" in flags
    assert "--gpu-memory-utilization" not in flags


def test_a_packaged_model_without_a_folder_says_to_prepare_it() -> None:
    with pytest.raises(GpuBackendError, match="prepare the model first"):
        command.flags(SMALL, host="127.0.0.1", port=1)


def test_metrics_can_be_left_out() -> None:
    flags = command.flags(replace(QWEN, per_request_metrics=False), host="h", port=1)
    assert "--enable-per-request-metrics" not in flags


def test_each_middleware_is_loaded_in_its_order() -> None:
    chosen = replace(QWEN, middleware=("first.of.Two", "second.of.Two"))
    flags = command.flags(chosen, host="h", port=1)
    assert ["first.of.Two", "second.of.Two"] == [
        flags[at + 1] for at, flag in enumerate(flags) if flag == "--middleware"
    ]


def test_a_gated_engine_tells_its_gate_the_same_bounds() -> None:
    flags = command.flags(QWEN.gated(), host="h", port=1)
    told = command.environment(QWEN.gated())
    assert "gpu_backend.gate.Gate" == value_of(flags, "--middleware")
    bound = int(told["NEARFAR_GATE_MAX_RUNNING"]) + int(told["NEARFAR_GATE_MAX_WAITING"])
    assert value_of(flags, "--max-num-seqs") == told["NEARFAR_GATE_MAX_RUNNING"]
    assert value_of(flags, "--max-num-queued-reqs") == str(bound)
    assert not [name for name in command.environment(QWEN) if "GATE" in name]


def test_the_api_key_stands_in_the_environment_and_in_no_flag() -> None:
    key = "sk-canary"
    assert key == command.environment(QWEN, api_key=key)["VLLM_API_KEY"]
    argv = command.module_argv(Path("python"), command.flags(QWEN, host="h", port=1))
    assert not any(key in word or "api-key" in word for word in argv)


def test_no_key_means_no_variable() -> None:
    assert "VLLM_API_KEY" not in command.environment(QWEN)


def test_only_a_cpu_gets_the_settings_of_a_cpu() -> None:
    assert "1" == command.environment(SMALL)["VLLM_CPU_KVCACHE_SPACE"]
    assert "1" == command.environment(SMALL)["HF_HUB_OFFLINE"]
    assert "PASSIVE" == command.environment(SMALL)["OMP_WAIT_POLICY"]
    assert not [name for name in command.environment(QWEN) if name.startswith(("OMP", "HF", "KMP"))]
    assert not [name for name in command.environment(QWEN) if "CPU" in name]


def test_vllm_is_started_as_a_module_of_the_given_interpreter() -> None:
    argv = command.module_argv(Path("env/bin/python"), ("--port", "1"))
    assert ("env/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--port", "1") == argv
