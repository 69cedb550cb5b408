"""Where things lie in a checkout; everything that nearfar makes itself lies under .nearfar/."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Checkout:
    """The folders of one checkout. `run` holds logs, state and secrets of its running stack."""

    root: Path
    run: Path

    @property
    def edge(self) -> Path:
        return self.root / "edge-frontend"

    @property
    def private(self) -> Path:
        return self.root / ".nearfar"

    @property
    def build(self) -> Path:
        return self.private / "build"

    def make_run(self) -> Path:
        """Make the run folder, readable by its owner alone."""
        self.run.mkdir(parents=True, exist_ok=True)
        self.run.chmod(0o700)
        return self.run


def here() -> Checkout:
    """Return the checkout that this package belongs to; NEARFAR_RUN_DIR moves its run folder."""
    root = Path(__file__).resolve().parents[2]
    run = os.environ.get("NEARFAR_RUN_DIR")
    return Checkout(root, Path(run).resolve() if run else root / ".nearfar" / "run")


def python_path(checkout: Checkout) -> str:
    """Return the PYTHONPATH that finds the packages of this project."""
    return os.pathsep.join(
        str(checkout.root / folder)
        for folder in ("edge-frontend", "gpu-backend", "infra", "operator-cli")
    )
