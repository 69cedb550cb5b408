"""Builds the component with the waits; made again when the edge's source or the waits change."""

from __future__ import annotations

import hashlib
import os
import site
import subprocess
import sys
from pathlib import Path

from nearfar import build, edge, program
from nearfar.checkout import here

_SOURCE = Path(__file__).parent / "slowed"


def component() -> Path:
    """The precompiled component."""
    checkout = here()
    folder = checkout.private / "attribution"
    folder.mkdir(parents=True, exist_ok=True)
    wasm, compiled, stamp = (folder / f"slowed.{end}" for end in ("wasm", "cwasm", "recipe"))
    digest = hashlib.sha256(build.source_hash(checkout).encode())
    digest.update((_SOURCE / "slowed.py").read_bytes())
    if stamp.exists() and compiled.exists() and stamp.read_text() == digest.hexdigest():
        return compiled
    print("building the component with waits (half a minute)", file=sys.stderr)
    run_it = "import sys; from componentize_py import script; sys.exit(script())"
    paths = [str(_SOURCE), str(checkout.edge), *site.getsitepackages()]
    _run(
        *(sys.executable, "-P", "-c", run_it, "-w", build.WORLD, "-d", str(checkout.edge / "wit")),
        *("componentize", "-i", build.LOCAL_WORLD),
        *(word for path in paths for word in ("-p", path)),
        *("slowed", "-o", str(wasm)),
    )
    _run(
        str(program.find("wasmtime")),
        "compile",
        *edge.COMPILE_FLAGS,
        str(wasm),
        "-o",
        str(compiled),
    )
    stamp.write_text(digest.hexdigest())
    return compiled


def _run(*argv: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["VIRTUAL_ENV"] = sys.prefix
    subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL)
