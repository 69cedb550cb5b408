"""What a model needs of a GPU's memory and what its bandwidth allows, from config.json alone.

Exact: parameters, weight bytes, KV cache bytes. Estimated: what vLLM takes besides those
(ASSUMED_OVERHEAD_BYTES), hence how many requests fit. Upper bounds: the decode speeds, which
count only the bytes that a step must read and no computing, launching or sampling.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil

from gpu_backend import gpus
from gpu_backend.errors import BudgetError
from gpu_backend.gpus import GIB, Gpu
from gpu_backend.model_config import DTYPE_BYTES, ModelConfig

# vLLM hands out KV cache in blocks of this many tokens (its default block size on CUDA).
KV_BLOCK_TOKENS = 16

# An assumption, not a measurement: activations of a prefill of 2,048 tokens, the sampler's
# logits, the CUDA context and the captured CUDA graphs together. vLLM prints what it really
# found when it starts.
ASSUMED_OVERHEAD_BYTES = int(1.5 * GIB)


@dataclass(frozen=True, slots=True)
class Budget:
    """All figures for one model, GPU, memory share and length of request.

    `fits` is false where the weights and the overhead alone exceed the share; the number of
    requests is then 0 and there is no speed. `full_batch` is the number of requests decoded
    at once: as many as fit, at most `max_num_seqs`.
    """

    gpu: Gpu
    share: float
    request_tokens: int
    dtype: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    kv_bytes_per_request: int
    overhead_bytes: int
    kv_cache_bytes: int
    kv_cache_tokens: int
    requests_that_fit: int
    full_batch: int
    max_tokens_s_single: float | None
    max_tokens_s_full_batch: float | None

    @property
    def fits(self) -> bool:
        return self.requests_that_fit > 0

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON, `fits` included."""
        return asdict(self) | {"fits": self.fits}


def weight_bytes(config: ModelConfig, dtype: str) -> int:
    """Bytes of all weights in the given number format."""
    return config.parameters * _bytes_of(dtype)


def kv_bytes_per_token(config: ModelConfig, dtype: str) -> int:
    """A key and a value per layer and KV head."""
    return 2 * config.layers * config.kv_heads * config.head_dim * _bytes_of(dtype)


def kv_bytes_per_request(config: ModelConfig, dtype: str, tokens: int) -> int:
    """KV cache of one request of `tokens` (prompt and answer), in whole blocks."""
    blocks = ceil(tokens / KV_BLOCK_TOKENS)
    return blocks * KV_BLOCK_TOKENS * kv_bytes_per_token(config, dtype)


def decode_tokens_s(
    config: ModelConfig, dtype: str, gpu: Gpu, *, batch: int, request_tokens: int
) -> float:
    """Most tokens a second that `batch` requests can get together: one step reads all
    weights once and each request's KV cache (at its full length, which is the slow end)."""
    weights = config.parameters_read_per_token * _bytes_of(dtype)
    cache = batch * request_tokens * kv_bytes_per_token(config, dtype)
    return batch * gpu.bandwidth_bytes_s / (weights + cache)


def report(
    config: ModelConfig,
    *,
    gpu: str,
    share: float,
    request_tokens: int,
    max_num_seqs: int,
    dtype: str | None = None,
    overhead_bytes: int = ASSUMED_OVERHEAD_BYTES,
) -> Budget:
    """Count the budget of one model on one GPU of `gpus.GPUS`; `share` as vLLM takes it."""
    _check(config, share, request_tokens, max_num_seqs)
    card, dtype = gpus.find(gpu), dtype or config.dtype
    weights = weight_bytes(config, dtype)
    per_token = kv_bytes_per_token(config, dtype)
    per_request = kv_bytes_per_request(config, dtype, request_tokens)
    cache = max(0, int(card.memory_bytes * share) - weights - overhead_bytes)
    fitting = cache // per_request
    batch = min(fitting, max_num_seqs)

    def speed(batch: int) -> float | None:
        if not fitting:
            return None
        return decode_tokens_s(config, dtype, card, batch=batch, request_tokens=request_tokens)

    return Budget(
        gpu=card,
        share=share,
        request_tokens=request_tokens,
        dtype=dtype,
        parameters=config.parameters,
        weight_bytes=weights,
        kv_bytes_per_token=per_token,
        kv_bytes_per_request=per_request,
        overhead_bytes=overhead_bytes,
        kv_cache_bytes=cache,
        kv_cache_tokens=cache // (KV_BLOCK_TOKENS * per_token) * KV_BLOCK_TOKENS,
        requests_that_fit=fitting,
        full_batch=batch,
        max_tokens_s_single=speed(1),
        max_tokens_s_full_batch=speed(batch),
    )


def lines(budget: Budget) -> list[str]:
    """Return the report for people, one figure a line; estimates and bounds are named as such."""
    card = budget.gpu
    figures = {
        "GPU": f"{card.name}, {_gib(card.memory_bytes)}, {card.bandwidth_bytes_s / 1e9:.0f} GB/s "
        f"({card.source})",
        "parameters": f"{budget.parameters:,} (exact)",
        "weights": f"{_gib(budget.weight_bytes)} as {budget.dtype} (exact)",
        "KV cache per token": f"{budget.kv_bytes_per_token:,} bytes (exact)",
        "KV cache per request": f"{_gib(budget.kv_bytes_per_request)} for "
        f"{budget.request_tokens:,} tokens (exact, whole blocks)",
        "taken besides": f"{_gib(budget.overhead_bytes)} (assumed: activations, CUDA)",
        "left for KV cache": f"{_gib(budget.kv_cache_bytes)}, {budget.kv_cache_tokens:,} tokens, "
        f"at a share of {budget.share:g} (estimate)",
        "requests that fit": f"{budget.requests_that_fit} (estimate)",
    }
    return [f"{name:<22}{value}" for name, value in (figures | _speeds(budget)).items()]


def _speeds(budget: Budget) -> dict[str, str]:
    single, full = budget.max_tokens_s_single, budget.max_tokens_s_full_batch
    if single is None or full is None:
        return {"decode speed": "not available: not one request fits"}
    return {
        "decode, one request": f"at most {single:.1f} tokens/s (memory bandwidth)",
        f"decode, {budget.full_batch} at once": f"at most {full:.1f} tokens/s together "
        "(memory bandwidth)",
    }


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"


def _bytes_of(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise BudgetError(
            f"Number format {dtype!r} is unknown.", f"choose one of {', '.join(DTYPE_BYTES)}."
        )
    return DTYPE_BYTES[dtype]


def _check(config: ModelConfig, share: float, request_tokens: int, max_num_seqs: int) -> None:
    if not 0 < share <= 1:
        raise BudgetError(f"A memory share of {share} is not possible.", "give one in (0, 1].")
    if not 1 <= request_tokens <= config.max_context_tokens:
        raise BudgetError(
            f"A request of {request_tokens} tokens is not possible with this model.",
            f"give a length from 1 to {config.max_context_tokens}, the model's context.",
        )
    if max_num_seqs < 1:
        raise BudgetError("At least one request must be served.", "give max_num_seqs of 1 or more.")
