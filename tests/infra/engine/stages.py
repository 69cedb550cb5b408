"""What kwok plays: its own stages, and one more in which an image cannot be pulled.

An image of the digest `BROKEN` never arrives: its pod waits until it is deleted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

BROKEN = "deadbeef" * 8

_OWN = Path(__file__).parent / "played"
_IMAGES = '.spec.containers[], (.spec.initContainers // [])[] | .image | select(contains("%s"))'


def text(folder: Path) -> str:
    """All stages as one file for `kwok --config`."""
    files = [*sorted(folder.iterdir()), *sorted(_OWN.iterdir())]
    stages = {s["metadata"]["name"]: s for s in (yaml.safe_load(f.read_text()) for f in files)}
    _only_if(stages["pod-ready"], "DoesNotExist")
    _only_if(stages["pod-image-missing"], "Exists")
    return str(yaml.safe_dump_all(stages.values()))


def _only_if(stage: dict[str, Any], operator: str) -> None:
    """Let a stage match pods with, or without, an image that never arrives."""
    broken = {"key": _IMAGES % BROKEN, "operator": operator}
    stage["spec"]["selector"]["matchExpressions"].append(broken)
