"""What the Pulumi CLI runs: `pulumi up` in this folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pulumi
from pulumi.runtime import config as configuration

ROOT = Path(__file__).resolve().parents[1]
# The CLI starts this file alone; the other halves lie beside this one.
sys.path[:0] = [str(ROOT / name) for name in ("edge-frontend", "gpu-backend", "operator-cli")]

from nearfar_infra import stack  # noqa: E402
from nearfar_infra.errors import InfraError  # noqa: E402
from nearfar_infra.program import program  # noqa: E402


def main() -> None:
    """Declare the deployment; what is wrong is one line, and nothing is created."""
    values = {**configuration.get_config_env(), **configuration.CONFIG.get()}
    try:
        given = stack.given(values, os.environ, ROOT / "infra")
        made = program(given.settings, given.sources, given.token)
    except InfraError as error:
        raise pulumi.RunError(str(error)) from error
    for name, value in made.exported.items():
        pulumi.export(name, value)


main()
