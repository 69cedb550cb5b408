"""The engine's programs: built once from Go modules, kept outside the work tree.

The folder is named after what goes in (the module, its sums, the mains, the flags), so a new
version builds beside the old one, and two runs at once share one build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gpu_backend import lock

from . import golang, patches
from .say import say

KUBERNETES = "v1.35.4"
PULUMI = "v3.274.1"
# The provider's module carries no version of its own; the SDK's is what a user installs.
KUBERNETES_PROVIDER = "4.34.2"

_PACKAGES = (
    "./etcd",
    f"./{patches.MAIN}",
    "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "sigs.k8s.io/kwok/cmd/kwok",
)
_VERSIONS = {
    "k8s.io/component-base/version.gitVersion": KUBERNETES,
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": "35",
    "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": PULUMI,
    f"{patches.PROVIDER.module}/pkg/version.Version": KUBERNETES_PROVIDER,
}
LDFLAGS = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in _VERSIONS.items())])
# kwok's own stages, for nodes that become ready and pods that run.
_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
_HEARTBEAT_S = 30
_PATIENCE_S = 3600.0  # with another run that builds


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder of finished programs."""

    home: Path

    def path(self, name: str) -> Path:
        """One program."""
        return self.home / "bin" / name

    @property
    def bin(self) -> Path:
        return self.home / "bin"

    @property
    def stages(self) -> Path:
        """kwok's stages, a file for each."""
        return self.home / "stages"

    @property
    def size_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.bin.iterdir())


def cache() -> Path:
    """Where finished programs are kept; `NEARFAR_ENGINE_CACHE` names another place."""
    named = os.environ.get("NEARFAR_ENGINE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nearfar" / "engine"


def key() -> str:
    """The name of the build: a hash over everything that goes into it."""
    digest = hashlib.sha256(f"{LDFLAGS} {patches.ALL}".encode())
    for each in sorted(golang.MODULE.rglob("*")):
        if each.suffix in {".go", ".mod", ".sum"}:
            digest.update(str(each.relative_to(golang.MODULE)).encode())
            digest.update(each.read_bytes())
    return digest.hexdigest()[:16]


def ensure() -> Binaries:
    """Return the programs; build them where they are not there yet."""
    home = cache() / key()
    if (home / "bin").is_dir():
        return Binaries(home)
    cache().mkdir(parents=True, exist_ok=True)
    with lock.held(cache() / "busy", timeout_s=_PATIENCE_S, waiting=_wait):
        if not (home / "bin").is_dir():
            _build(home)
    return Binaries(home)


def _build(home: Path) -> None:
    """Build next to `home` and move it there whole."""
    start = time.monotonic()
    draft = home.with_name(home.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    source = draft / "source"
    shutil.copytree(golang.MODULE, source)
    go = golang.find(cache())
    env = _environment()
    say(f"building {len(_PACKAGES)} programs with {go} (once; 15 minutes of processor time)")
    patches.lay(go, env, source)
    (draft / "bin").mkdir()
    _compile(go, env, source, draft / "bin")
    _take_files(go, env, source, draft)
    shutil.rmtree(source)
    draft.rename(home)
    size = Binaries(home).size_bytes / 1e6
    say(f"built in {time.monotonic() - start:.0f} s: {size:.0f} MB in {home}")


def _environment() -> dict[str, str]:
    """No C compiler, no other Go than the one chosen, no stamp of the checkout."""
    flags = f"-buildvcs=false {os.environ.get('NEARFAR_ENGINE_GOFLAGS', '')}".strip()
    chosen = {"CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return os.environ | chosen


def _compile(go: Path, env: dict[str, str], source: Path, target: Path) -> None:
    """One call for all programs, so that what they share is compiled once."""
    argv = ["nice", "-n", "10", str(go), "build", "-ldflags", LDFLAGS, "-o", f"{target}/"]
    with subprocess.Popen([*argv, *_PACKAGES], env=env, cwd=source) as running:
        while running.poll() is None:
            try:
                running.wait(timeout=_HEARTBEAT_S)
            except subprocess.TimeoutExpired:
                done = ", ".join(sorted(each.name for each in target.iterdir()))
                say(f"still building; finished: {done or 'none yet'}")
        if running.returncode:
            raise RuntimeError(f"go build ended with {running.returncode}; see its words above")


def _take_files(go: Path, env: dict[str, str], source: Path, draft: Path) -> None:
    """Take what the programs need beside them out of the modules that they came from."""
    stages = golang.module_folder(go, "sigs.k8s.io/kwok", env, source) / "kustomize" / "stage"
    (draft / "stages").mkdir()
    for each in _STAGES:
        shutil.copyfile(stages / each, draft / "stages" / Path(each).name)
    sdk = golang.module_folder(go, "github.com/pulumi/pulumi/sdk/v3", env, source)
    # What the engine starts for a resource that is written in Python.
    dynamic = draft / "bin" / "pulumi-resource-pulumi-python"
    shutil.copyfile(sdk / "python" / "dist" / dynamic.name, dynamic)
    dynamic.chmod(0o755)


def _wait(waited_s: float) -> None:
    if waited_s < lock.POLL_S:
        say("another run is building the engine; waiting for it")
