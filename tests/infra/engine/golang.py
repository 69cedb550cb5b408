"""A Go that can build the engine: the one on PATH, or one from the package registry."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from nearfar import environment

from .say import say

MODULE = Path(__file__).parent / "go"
_LOCK = Path(__file__).parents[2] / "go.lock"


def needed() -> tuple[int, ...]:
    """The version that the module asks for."""
    match = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert match is not None
    return _numbers(match[1])


def find(cache: Path) -> Path:
    """Return a `go` that is new enough; install one below `cache` where there is none."""
    on_path = shutil.which("go")
    if on_path and version(Path(on_path)) >= needed():
        return Path(on_path)
    say(f"no Go {'.'.join(map(str, needed()))} on PATH: taking the one of tests/go.lock")
    home = cache / "go-env"
    environment.ensure(home, [_LOCK])
    found = sorted(home.glob("lib/python*/site-packages/**/bin/go")) or [home / "bin" / "go"]
    found[0].chmod(0o755)
    return found[0]


def version(go: Path) -> tuple[int, ...]:
    """Ask a `go` for its version; an answer in another form counts as the oldest."""
    asked = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return _numbers(asked.stdout.strip().removeprefix("go"))


def module_folder(go: Path, name: str, env: dict[str, str], cwd: Path) -> Path:
    """Where the source of one module of the build lies."""
    asked = [str(go), "list", "-m", "-f", "{{.Dir}}", name]
    subprocess.run([go, "mod", "download", name], env=env, cwd=cwd, check=True)
    return Path(subprocess.check_output(asked, env=env, cwd=cwd, text=True).strip())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
