"""The Kubernetes provider's source, made to fit the engine's newer SDK.

The newest version of the module that is to be had is older than the engine, and one type of the
SDK has become a pointer since. In one module with the engine everything that both need is compiled
once, so the source is copied and that one place is changed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import golang

MODULE = "github.com/pulumi/pulumi-kubernetes/provider/v4"
MAIN = "pulumi-resource-kubernetes"
# (file, what stands there, what must stand there)
CHANGE = (
    "pkg/gen/schema.go",
    "Provider: pschema.ResourceSpec{",
    "Provider: &pschema.ResourceSpec{",
)
_EMBEDDED = ("schema.json", "terraform-mapping.json")


def lay(go: Path, env: dict[str, str], source: Path) -> None:
    """Put the provider's source below `source`, and what its main embeds beside that main."""
    copy = source / "provider"
    shutil.copytree(golang.module_folder(go, MODULE, env, source), copy)
    for path in (copy, *copy.rglob("*")):  # the module cache is read-only
        path.chmod(path.stat().st_mode | 0o200)
    name, old, new = CHANGE
    text = (copy / name).read_text()
    if text.count(old) != 1:
        raise RuntimeError(f"{name} of {MODULE} is not what it was: {old!r} must stand there once")
    (copy / name).write_text(text.replace(old, new))
    for each in _EMBEDDED:
        shutil.copyfile(copy / "cmd" / MAIN / each, source / MAIN / each)
    argv = [str(go), "mod", "edit", f"-replace={MODULE}=./provider"]
    subprocess.run(argv, env=env, cwd=source, check=True)
