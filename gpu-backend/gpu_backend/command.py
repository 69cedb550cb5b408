"""From a ServingSpec to vLLM's flags and environment; no process is started here.

The flags are the same wherever vLLM runs. How the process is launched differs: the CPU wheel
has no working `vllm` script, so it is started as a Python module; a container image starts
with the flags alone.
"""

from __future__ import annotations

from pathlib import Path

from gpu_backend.errors import GpuBackendError
from gpu_backend.spec import GATE, ServingSpec

MODULE = "vllm.entrypoints.openai.api_server"


def flags(
    spec: ServingSpec, *, host: str, port: int, model_dir: Path | None = None
) -> tuple[str, ...]:
    """Return vLLM's server flags. `model_dir` holds the weights when they come from a package."""
    chosen = (
        *_model_flags(spec, model_dir),
        *("--served-model-name", spec.served_name, "--host", host, "--port", str(port)),
        *("--max-model-len", str(spec.context_tokens)),
        *("--max-num-seqs", str(spec.max_num_seqs)),
        *("--max-num-queued-reqs", str(spec.max_num_queued_reqs)),
        *("--max-num-queued-tokens", str(spec.max_num_queued_tokens)),
        *("--dtype", spec.dtype, "--seed", str(spec.seed)),
        # A field that the client leaves out gets the API's default, not one that a model's
        # generation_config.json sets (Qwen2.5 ships temperature 0.7, repetition penalty 1.05).
        *("--generation-config", "vllm"),
        # vLLM would log one line a request; requests are accounted for elsewhere.
        "--disable-uvicorn-access-log",
    )
    return chosen + _optional_flags(spec)


def _model_flags(spec: ServingSpec, model_dir: Path | None) -> tuple[str, ...]:
    if spec.weights_from == "hub":
        return ("--model", spec.model, "--revision", spec.revision)
    if model_dir is None:
        raise GpuBackendError(
            f"Profile {spec.profile} takes its weights from a package, but no folder was given.",
            "prepare the model first and pass its folder as model_dir.",
        )
    return ("--model", str(model_dir))


def _optional_flags(spec: ServingSpec) -> tuple[str, ...]:
    found: list[str] = []
    if spec.gpu_memory_utilization is not None:
        found += ["--gpu-memory-utilization", str(spec.gpu_memory_utilization)]
    if spec.enforce_eager:
        found += ["--enforce-eager"]
    if spec.per_request_metrics:
        found += ["--enable-per-request-metrics"]
    if spec.tool_call_parser is not None:
        found += ["--enable-auto-tool-choice", "--tool-call-parser", spec.tool_call_parser]
    for name in spec.middleware:
        found += ["--middleware", name]
    return tuple(found)


def environment(spec: ServingSpec, *, api_key: str | None = None) -> dict[str, str]:
    """Return the variables that vLLM needs on top of a plain environment.

    The API key travels here and never among the flags, which every user of a machine can read.
    """
    found = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if api_key is not None:
        found["VLLM_API_KEY"] = api_key
    if GATE in spec.middleware:
        # The gate lets in what the engine will take: both bounds count choices.
        found["NEARFAR_GATE_MAX_RUNNING"] = str(spec.max_num_seqs)
        found["NEARFAR_GATE_MAX_WAITING"] = str(spec.max_num_queued_reqs - spec.max_num_seqs)
    if spec.device == "cpu":
        found["VLLM_CPU_KVCACHE_SPACE"] = str(spec.cpu_kv_cache_gib)
        # Binding threads to cores fails where the machine shows only some of its cores.
        found["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        # Threads that wait by spinning starve whatever shares the cores, each other included.
        # Side by side under the same load, 60 tokens each: 50 to 63 ms a token, against 53 to
        # 524 ms with spinning. (The second name is Intel's runtime, which the lock brings.)
        found |= {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    if spec.weights_from == "package":
        found["HF_HUB_OFFLINE"] = "1"
    return found


def module_argv(python: Path, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argv that starts vLLM as a module of the given interpreter."""
    return (str(python), "-m", MODULE, *flags)
