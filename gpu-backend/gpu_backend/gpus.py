"""GPUs by name: memory and memory bandwidth, as their makers publish them."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_backend.errors import BudgetError

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. `memory_bytes` is the nominal size; drivers show one to four per cent less."""

    key: str
    name: str
    memory_bytes: int
    bandwidth_bytes_s: float
    source: str


def _gpu(key: str, name: str, memory_gib: int, bandwidth_gb_s: float, source: str) -> Gpu:
    return Gpu(key, name, memory_gib * GIB, bandwidth_gb_s * 1e9, source)


GPUS: dict[str, Gpu] = {
    gpu.key: gpu
    for gpu in (
        _gpu("l4", "L4", 24, 300, "NVIDIA L4 datasheet"),
        _gpu("rtx-4000-ada", "RTX 4000 Ada", 20, 360, "NVIDIA RTX 4000 Ada datasheet"),
        _gpu("rtx-6000-ada", "RTX 6000 Ada", 48, 960, "NVIDIA RTX 6000 Ada datasheet"),
        _gpu("l40s", "L40S", 48, 864, "NVIDIA L40S datasheet"),
        _gpu("a100-80", "A100 SXM 80 GB", 80, 2039, "NVIDIA A100 datasheet"),
        _gpu("h100", "H100 SXM 80 GB", 80, 3350, "NVIDIA H100 datasheet"),
    )
}


def find(key: str) -> Gpu:
    """Return the GPU of that name; an unknown one is an error that lists the known ones."""
    if key not in GPUS:
        raise BudgetError(f"GPU {key!r} is not in the table.", f"choose one of {', '.join(GPUS)}.")
    return GPUS[key]
