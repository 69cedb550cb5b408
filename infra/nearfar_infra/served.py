"""What the cluster serves: the ServingSpec of these settings, and whether the GPU can hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gpu_backend import budget, model_config, spec
from gpu_backend.errors import GpuBackendError, SpecError
from gpu_backend.model_config import ModelConfig
from gpu_backend.spec import ServingSpec
from nearfar_infra.plans import PLANS
from nearfar_infra.values import Values

# Which setting stands for a field of the specification.
_KEYS = {
    "model": "model",
    "revision": "modelRevision",
    "served_name": "servedName",
    "context_tokens": "contextTokens",
    "max_num_seqs": "maxRunning",
    "max_num_queued_reqs": "maxWaiting",
    "gpu_memory_utilization": "gpuMemoryPercent",
}


def of(values: Values, root: Path) -> tuple[ServingSpec | None, int, dict[str, str]]:
    """Return the specification, its weights in bytes, and what is wrong (key → problem)."""
    try:
        base = spec.profile(values.text("profile"))
        served = _changed(base, values)
    except SpecError as error:
        return None, 0, {_KEYS.get(name, "profile"): text for name, text in error.problems.items()}
    except GpuBackendError as error:
        return None, 0, {"profile": f"is wrong: {error.message} {error.next_step}"}
    if served.device != "cuda":
        return None, 0, {"profile": "is for a CPU; the cluster serves on GPUs"}
    try:
        config = _config(served, values, root)
    except GpuBackendError as error:
        return None, 0, {"modelConfig": f"is wrong: {error.message}"}
    problems = _too_large(served, config)
    return served, budget.weight_bytes(config, served.dtype), problems


def _changed(base: ServingSpec, values: Values) -> ServingSpec:
    """Return the profile with what the settings change, on the GPU of the chosen plan."""
    changes: dict[str, Any] = {"gpu": PLANS[values.text("gpuPlan")].gpu}
    if values.maybe("model"):
        changes |= {
            "model": values.text("model"),
            "revision": values.text("modelRevision"),
            "served_name": values.text("servedName"),
            "tool_call_parser": None,
        }
    running, waiting = values.maybe_number("maxRunning"), values.maybe_number("maxWaiting")
    seats = base.max_num_seqs if running is None else running
    queue = base.max_num_queued_reqs - base.max_num_seqs if waiting is None else waiting
    changes |= {"max_num_seqs": seats, "max_num_queued_reqs": seats + queue}
    context, percent = values.maybe_number("contextTokens"), values.maybe_number("gpuMemoryPercent")
    if context is not None:
        changes |= {
            "context_tokens": context,
            "max_num_queued_tokens": max(context, base.max_num_queued_tokens),
        }
    if percent is not None:
        changes["gpu_memory_utilization"] = percent / 100
    return replace(base, **changes)


def _config(served: ServingSpec, values: Values, root: Path) -> ModelConfig:
    given = values.maybe("modelConfig")
    return model_config.load(root / given) if given else model_config.shipped(served.model)


def _too_large(served: ServingSpec, config: ModelConfig) -> dict[str, str]:
    """Ask the budget whether at least one request of full length fits beside the weights."""
    try:
        counted = budget.report(
            config,
            gpu=str(served.gpu),
            share=cast("float", served.gpu_memory_utilization),  # a GPU has one
            request_tokens=served.context_tokens,
            max_num_seqs=served.max_num_seqs,
            dtype=served.dtype,
        )
    except GpuBackendError as error:
        return {"contextTokens": f"is wrong: {error.message} {error.next_step}"}
    if counted.fits:
        return {}
    return {
        "gpuPlan": f"cannot hold {served.model}: {counted.weight_bytes / 2**30:.1f} GiB of weights"
        f" leave no room for one request of {served.context_tokens} tokens on a {counted.gpu.name}"
        f" ({counted.gpu.memory_bytes // 2**30} GiB); `nearfar budget` shows the figures"
    }
