"""nearfar budget: what a model needs of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from gpu_backend import budget, gpus, model_config, spec
from gpu_backend.errors import GpuBackendError
from gpu_backend.model_config import ModelConfig
from nearfar import console
from nearfar.errors import BadInput

DEFAULT = "qwen2.5-7b-rtx4000ada"
DEFAULT_GPU = "rtx-4000-ada"
DEFAULT_SHARE = 0.92
DEFAULT_CONTEXT = 8192
DEFAULT_REQUESTS = 16

HELP = f"""Count weights, KV cache, requests that fit and the decode speed that bandwidth allows.

MODEL is a serving profile ({", ".join(spec.PROFILES)}), a model whose config.json comes along
({", ".join(model_config.SHIPPED)}), or the path of a config.json.

\b
Examples:
  nearfar budget
  nearfar budget Qwen/Qwen2.5-7B-Instruct --gpu l4 --context 4096
  nearfar budget ./config.json --gpu l40s --json
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A model's shape and what its profile, if it has one, says about serving it."""

    name: str
    config: ModelConfig
    gpu: str = DEFAULT_GPU
    share: float = DEFAULT_SHARE
    context_tokens: int = DEFAULT_CONTEXT
    requests: int = DEFAULT_REQUESTS


@click.command("budget", help=HELP)
@click.argument("model", default=DEFAULT)
@click.option("--gpu", help=f"One of {', '.join(gpus.GPUS)}. Default: the profile's.")
@click.option("--context", type=click.IntRange(1), help="Tokens of one request, answer included.")
@click.option("--requests", type=click.IntRange(1), help="Requests decoded at once, at most.")
@click.option("--share", type=float, help="Share of the GPU's memory that vLLM may take.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(
    model: str,
    gpu: str | None,
    context: int | None,
    requests: int | None,
    share: float | None,
    as_json: bool,
) -> None:
    try:
        asked = find(model)
        found = budget.report(
            asked.config,
            gpu=asked.gpu if gpu is None else gpu,
            share=asked.share if share is None else share,
            request_tokens=asked.context_tokens if context is None else context,
            max_num_seqs=asked.requests if requests is None else requests,
        )
    except GpuBackendError as error:
        raise BadInput(error.message, error.next_step) from error
    if as_json:
        console.result_json({"model": asked.name, **found.as_dict()})
        return
    console.result(f"model                 {asked.name}")
    console.result("\n".join(budget.lines(found)))


def find(model: str) -> Asked:
    """Return the model of a profile, one that comes along, or that of a config.json."""
    if model in spec.PROFILES:
        profile = spec.profile(model)
        return Asked(
            profile.model,
            model_config.shipped(profile.model),
            profile.gpu or DEFAULT_GPU,
            profile.gpu_memory_utilization or DEFAULT_SHARE,
            profile.context_tokens,
            profile.max_num_seqs,
        )
    if model in model_config.SHIPPED:
        return _asked(model, model_config.shipped(model))
    path = Path(model)
    if path.suffix == ".json" or path.exists():
        return _asked(model, model_config.load(path))
    raise BadInput(
        f"{model!r} is no profile, no known model and no file.",
        f"choose one of {', '.join((*spec.PROFILES, *model_config.SHIPPED))}, or a config.json.",
    )


def _asked(name: str, config: ModelConfig) -> Asked:
    context = min(DEFAULT_CONTEXT, config.max_context_tokens)
    return Asked(name, config, context_tokens=context)
