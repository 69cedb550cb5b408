"""Linode's plans that a pool can be made of, and where those with a GPU are to be had.

Source: Akamai Cloud's documentation of GPU instances (plans, availability) as others quoted it
by AS_OF. `nearfar doctor --deploy` asks the API for what holds today.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_OF = "2026-01-31"

_ADA_REGIONS = ("us-ord", "us-sea", "de-fra-2", "fr-par", "in-bom-2", "jp-osa", "sg-sin-2")


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan of the type list. `gpu` is a key of gpu_backend.gpus, None without a GPU."""

    key: str
    vcpus: int
    memory_gib: int
    disk_gb: int
    gpu: str | None = None
    gpus: int = 0
    regions: tuple[str, ...] = ()


def _ada(size: str, gpus: int, vcpus: int, memory_gib: int, disk_gb: int) -> Plan:
    key = f"g2-gpu-rtx4000a{gpus}-{size}"
    return Plan(key, vcpus, memory_gib, disk_gb, "rtx-4000-ada", gpus, _ADA_REGIONS)


PLANS: dict[str, Plan] = {
    plan.key: plan
    for plan in (
        Plan("g6-standard-2", 2, 4, 80),
        Plan("g6-standard-4", 4, 8, 160),
        Plan("g6-standard-6", 6, 16, 320),
        Plan("g6-standard-8", 8, 32, 640),
        Plan("g6-dedicated-2", 2, 4, 80),
        Plan("g6-dedicated-4", 4, 8, 160),
        Plan("g6-dedicated-8", 8, 16, 320),
        Plan("g6-dedicated-16", 16, 32, 640),
        _ada("s", 1, 4, 16, 500),
        _ada("m", 1, 8, 32, 500),
        _ada("l", 1, 16, 64, 500),
        _ada("xl", 1, 32, 128, 500),
        _ada("s", 2, 8, 32, 500),
        _ada("m", 2, 16, 64, 500),
        _ada("s", 4, 32, 128, 500),
        _ada("m", 4, 48, 196, 500),
    )
}
