"""A model's config.json, and what can be counted exactly from it: its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gpu_backend.errors import ModelConfigError

# Bytes of one number.
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}

# Decoder families counted here: dense, with rotary positions, RMSNorm and a gated MLP of three
# matrices. Others (experts, latent attention, learned positions) would come out wrong.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")

SHIPPED = {
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b-instruct.json",
    "HuggingFaceTB/SmolLM2-135M-Instruct": "smollm2-135m-instruct.json",
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a dense decoder; counts are numbers of parameters.

    `qkv_bias` is Qwen2's bias on the three projections, `output_bias` and `mlp_bias` Llama's
    options, `qk_norm` Qwen3's norms per head.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    max_context_tokens: int
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    dtype: str

    def __post_init__(self) -> None:
        if self.query_heads % self.kv_heads:
            raise _unusable("the query heads are not a multiple of the KV heads")
        if self.dtype not in DTYPE_BYTES:
            raise _unusable(f"its dtype {self.dtype!r} is unknown")

    @property
    def embedding_parameters(self) -> int:
        """The input table, which is looked up row by row, not multiplied with."""
        return self.vocab_size * self.hidden_size

    @property
    def layer_parameters(self) -> int:
        """One layer: attention, MLP and two norms."""
        queries, keys = self.query_heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden_size * (queries + 2 * keys) + queries * self.hidden_size
        attention += (queries + 2 * keys) * self.qkv_bias + self.hidden_size * self.output_bias
        attention += 2 * self.head_dim * self.qk_norm
        mlp = 3 * self.hidden_size * self.intermediate_size
        mlp += (2 * self.intermediate_size + self.hidden_size) * self.mlp_bias
        return attention + mlp + 2 * self.hidden_size

    @property
    def parameters(self) -> int:
        """All stored parameters; tied embeddings are stored once."""
        heads = 1 if self.tied_embeddings else 2
        body = self.layers * self.layer_parameters + self.hidden_size
        return body + heads * self.embedding_parameters

    @property
    def parameters_read_per_token(self) -> int:
        """What one decode step has to read: all but an untied input table."""
        untied = 0 if self.tied_embeddings else self.embedding_parameters
        return self.parameters - untied


def parse(config: Mapping[str, Any]) -> ModelConfig:
    """Read the fields of a config.json as the transformers library names them."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise _unusable(f"its model_type {family!r} is not one of {', '.join(FAMILIES)}")
    if config.get("quantization_config"):
        raise _unusable("its weights are quantised, and their size does not follow from the shape")
    # Qwen says whether its window is used; Mistral uses it wherever it is named.
    if config.get("use_sliding_window", family == "mistral" and config.get("sliding_window")):
        raise _unusable("its sliding window bounds the KV cache")
    return _shape(str(family), config)


def _shape(family: str, config: Mapping[str, Any]) -> ModelConfig:
    attention_bias = bool(config.get("attention_bias", False))
    heads, hidden = _count(config, "num_attention_heads"), _count(config, "hidden_size")
    return ModelConfig(
        model_type=family,
        vocab_size=_count(config, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_count(config, "intermediate_size"),
        layers=_count(config, "num_hidden_layers"),
        query_heads=heads,
        kv_heads=_count(config, "num_key_value_heads", heads),
        head_dim=_count(config, "head_dim", hidden // heads),
        max_context_tokens=_count(config, "max_position_embeddings"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or attention_bias,
        output_bias=family != "qwen2" and attention_bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
        dtype=config.get("dtype") or config.get("torch_dtype") or "bfloat16",
    )


def _count(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A positive whole number; a missing or null field takes the default where it has one."""
    value = config.get(name)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _unusable(f"{name} is {value!r}, not a positive whole number")
    return value


def load(path: Path) -> ModelConfig:
    """Read a config.json from a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(f"{path} cannot be read as JSON ({error})") from error
    if not isinstance(found, dict):
        raise _unusable(f"{path} does not hold a JSON object")
    return parse(found)


def shipped(model: str) -> ModelConfig:
    """Return the configuration of a model that a profile serves."""
    if model not in SHIPPED:
        raise ModelConfigError(
            f"The config.json of {model} does not come with this package.",
            f"pass a config.json, or choose one of {', '.join(SHIPPED)}.",
        )
    text = resources.files("gpu_backend").joinpath("models", SHIPPED[model]).read_text("utf-8")
    return parse(json.loads(text))


def _unusable(why: str) -> ModelConfigError:
    return ModelConfigError(
        f"The budget cannot be counted from this config.json: {why}.",
        "pass the config.json of a dense Llama, Mistral, Qwen2 or Qwen3 model.",
    )
