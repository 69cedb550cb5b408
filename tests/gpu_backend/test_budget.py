"""Published figures: the model card of Qwen2.5-7B-Instruct (7.61 billion parameters, 6.53
without embeddings, 28 layers, 28 query and 4 KV heads) and the sizes of both models' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_backend import budget, gpus, model_config
from gpu_backend.budget import Budget
from gpu_backend.errors import BudgetError, ModelConfigError
from gpu_backend.model_config import ModelConfig

QWEN = model_config.shipped("Qwen/Qwen2.5-7B-Instruct")
SMALL = model_config.shipped("HuggingFaceTB/SmolLM2-135M-Instruct")
LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
QWEN3_06B: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}


def report(config: ModelConfig = QWEN, **changed: Any) -> Budget:
    asked: dict[str, Any] = {
        "gpu": "rtx-4000-ada",
        "share": 0.92,
        "request_tokens": 8192,
        "max_num_seqs": 16,
    }
    return budget.report(config, **(asked | changed))


@pytest.mark.parametrize(
    ("parameters", "config"),
    [
        (7_615_616_512, QWEN),
        (134_515_008, SMALL),
        (8_030_261_248, model_config.parse(LLAMA_8B)),
        (596_049_920, model_config.parse(QWEN3_06B)),
    ],
    ids=["qwen2.5-7b", "smollm2-135m", "llama-3.1-8b", "qwen3-0.6b"],
)
def test_the_parameters_come_out_as_published(parameters: int, config: ModelConfig) -> None:
    assert parameters == config.parameters


def test_qwen_without_its_embeddings_has_the_published_6_53_billion() -> None:
    assert 6.53 == round((QWEN.parameters - 2 * QWEN.embedding_parameters) / 1e9, 2)


def test_a_token_of_qwen_takes_57344_bytes_of_cache() -> None:
    assert 57_344 == budget.kv_bytes_per_token(QWEN, "bfloat16")


def test_without_grouped_queries_the_cache_of_qwen_would_be_seven_times_as_large() -> None:
    many = json.loads(_file("qwen2.5-7b-instruct.json")) | {"num_key_value_heads": 28}
    assert 7 * 57_344 == budget.kv_bytes_per_token(model_config.parse(many), "bfloat16")


def test_an_untied_input_table_is_not_read_in_a_decode_step() -> None:
    assert QWEN.parameters - 152_064 * 3584 == QWEN.parameters_read_per_token
    assert SMALL.parameters == SMALL.parameters_read_per_token


def test_llamas_optional_biases_are_counted() -> None:
    biased = model_config.parse(LLAMA_8B | {"attention_bias": True, "mlp_bias": True})
    per_layer = (4096 + 2 * 1024 + 4096) + (2 * 14336 + 4096)
    assert 32 * per_layer == biased.parameters - model_config.parse(LLAMA_8B).parameters


def test_qwen_fits_on_the_rtx_4000_ada_with_six_full_requests() -> None:
    found = report()
    assert 6 == found.requests_that_fit == found.full_batch
    assert found.fits


def test_shorter_requests_are_bounded_by_what_is_served_at_once() -> None:
    found = report(request_tokens=512)
    assert found.requests_that_fit > 16
    assert 16 == found.full_batch


def test_decoding_one_request_is_bounded_by_reading_the_weights() -> None:
    """360 GB/s over 14.14 GB of weights and 57 MB of cache for 1,000 tokens."""
    expected = 360e9 / (7_070_619_136 * 2 + 1000 * 57_344)
    assert pytest.approx(expected) == report(request_tokens=1000).max_tokens_s_single


def test_where_nothing_fits_there_is_no_speed_rather_than_zero() -> None:
    found = report(share=0.7)
    assert not found.fits
    assert found.max_tokens_s_single is None
    assert found.max_tokens_s_full_batch is None
    assert any("not available" in line for line in budget.lines(found))


def test_the_report_says_which_figures_are_assumed_or_estimated() -> None:
    text = "\n".join(budget.lines(report()))
    assert "7,615,616,512 (exact)" in text
    assert "1.50 GiB (assumed" in text
    assert "requests that fit     6 (estimate)" in text


def test_the_report_survives_json() -> None:
    again = json.loads(json.dumps(report().as_dict()))
    assert 7_615_616_512 == again["parameters"]
    assert again["fits"] is True
    assert "rtx-4000-ada" == again["gpu"]["key"]


@pytest.mark.parametrize(
    ("memory_gib", "bandwidth", "key"),
    [
        (20, 360e9, "rtx-4000-ada"),
        (48, 864e9, "l40s"),
        (80, 3350e9, "h100"),
        (80, 2039e9, "a100-80"),
    ],
)
def test_a_gpu_has_its_published_size(memory_gib: int, bandwidth: float, key: str) -> None:
    assert memory_gib * 2**30 == gpus.find(key).memory_bytes
    assert bandwidth == gpus.find(key).bandwidth_bytes_s


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu": "abacus"},
        {"share": 0.0},
        {"share": 1.1},
        {"request_tokens": 0},
        {"request_tokens": 32769},
        {"max_num_seqs": 0},
        {"dtype": "int3"},
    ],
)
def test_a_question_without_an_answer_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(BudgetError, match="Next step"):
        report(**wrong)


@given(
    tokens=st.integers(1, 32768),
    share=st.floats(0.01, 1.0),
    gpu=st.sampled_from(sorted(gpus.GPUS)),
    config=st.sampled_from([QWEN, SMALL]),
)
def test_what_is_said_to_fit_really_fits_and_one_more_does_not(
    tokens: int, share: float, gpu: str, config: ModelConfig
) -> None:
    tokens = min(tokens, config.max_context_tokens)
    found = report(config, gpu=gpu, share=share, request_tokens=tokens)
    room = found.gpu.memory_bytes * share
    used = found.weight_bytes + found.overhead_bytes
    if found.fits:
        assert used + found.requests_that_fit * found.kv_bytes_per_request <= room
    assert used + (found.requests_that_fit + 1) * found.kv_bytes_per_request > room - 1


@given(tokens=st.integers(1, 32768))
def test_a_request_takes_whole_blocks_and_less_than_one_too_many(tokens: int) -> None:
    taken = budget.kv_bytes_per_request(QWEN, "bfloat16", tokens)
    assert 0 == taken % (16 * 57_344)
    assert 0 <= taken - tokens * 57_344 < 16 * 57_344


@given(batch=st.integers(1, 64))
def test_more_requests_at_once_are_faster_together_and_slower_each(batch: int) -> None:
    card = gpus.find("h100")
    now, more = (
        budget.decode_tokens_s(QWEN, "bfloat16", card, batch=size, request_tokens=1000)
        for size in (batch, batch + 1)
    )
    assert now < more
    assert now / batch > more / (batch + 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"model_type": "mixtral"},
        {"model_type": None},
        {"quantization_config": {"quant_method": "awq"}},
        {"use_sliding_window": True},
        {"model_type": "mistral", "sliding_window": 4096},
        {"num_attention_heads": 0},
        {"vocab_size": True},
        {"hidden_size": 0},
        {"hidden_size": "4096"},
        {"num_key_value_heads": 5},
        {"torch_dtype": "int3"},
    ],
)
def test_a_model_that_would_be_counted_wrongly_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ModelConfigError, match="cannot be counted"):
        model_config.parse(LLAMA_8B | changed)


@pytest.mark.parametrize("missing", ["vocab_size", "hidden_size", "num_hidden_layers"])
def test_a_missing_field_is_named(missing: str) -> None:
    without = {name: value for name, value in LLAMA_8B.items() if name != missing}
    with pytest.raises(ModelConfigError, match=missing):
        model_config.parse(without)


def test_a_config_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_8B))
    assert model_config.parse(LLAMA_8B) == model_config.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ModelConfigError, match=r"config\.json"):
        model_config.load(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match=r"absent\.json"):
        model_config.load(tmp_path / "absent.json")


def test_a_model_without_a_shipped_config_names_those_with_one() -> None:
    with pytest.raises(ModelConfigError, match=r"Qwen/Qwen2\.5-7B-Instruct"):
        model_config.shipped("nobody/nothing")


def _file(name: str) -> str:
    return (Path(model_config.__file__).parent / "models" / name).read_text()
