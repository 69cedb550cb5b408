"""Names of metrics as servers expose them; each list says how it was made."""

from __future__ import annotations

from pathlib import Path

from gpu_backend.gate import metrics

_PARTS = ("_bucket", "_sum", "_count")


def recorded(server: str) -> dict[str, str]:
    """Name → type, as one list has it."""
    lines = (Path(__file__).parent / f"{server}.txt").read_text("utf-8").splitlines()
    pairs = (line.split() for line in lines if not line.startswith("#"))
    return dict(pairs)


def known() -> set[str]:
    """Every name that a query may use: histograms by their parts too, and the gate's own."""
    found: set[str] = {f"nearfar_gate_{name}" for name in metrics.NAMES}
    for server in ("vllm", "dcgm", "traefik", "kubernetes"):
        for name, kind in recorded(server).items():
            found |= {name + part for part in _PARTS} if kind == "histogram" else {name}
    return found
