"""Makes an environment of its own with the real vLLM for CPU, from the lock beside this package.

PyTorch comes from the lock like everything else (the build with CUDA, which runs on a CPU too),
or from PyTorch's own index of CPU wheels where that answers, which is a far smaller download.
Those wheels are other files than the ones whose hashes the lock can hold, so they are checked
by version and by the index's TLS alone; `torch="lock"` keeps every file checked by hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gpu_backend import lock, steps
from gpu_backend.errors import InstallError
from gpu_backend.progress import Progress, ProgressCallback, silent
from gpu_backend.steps import Outcome, Step

TorchFrom = Literal["auto", "lock"]

LOCK_FILE = Path(__file__).parent.parent / "requirements.lock"
STAMP = "nearfar-stamp.json"

# Usual times: two cores, a fast network. Time-outs: a slow one.
MAKE = Step("environment", "making an environment for vLLM", 2, 120)
TORCH = Step("torch", "downloading PyTorch's CPU wheels", 30, 1800)
PACKAGES_SMALL = Step("packages", "downloading vLLM and what it needs", 60, 3600)
PACKAGES = Step("packages", "downloading vLLM, PyTorch and what they need (3.2 GB)", 120, 3600)
CHECK = Step("check", "importing vLLM once", 5, 300)

PROBE_TIMEOUT_S = 15.0
WAIT_FOR_OTHERS_S = 3600.0

# What only PyTorch's CUDA build needs.
_CUDA_ONLY = re.compile(r"(torch|triton)==|(nvidia|cuda)-")
_CHECK_CODE = (
    "import json, torch, vllm.version;"
    "print(json.dumps({'torch': torch.__version__, 'vllm': vllm.version.__version__}))"
)


@dataclass(frozen=True, slots=True)
class Environment:
    """An installed environment; `installed` tells whether this call did the work."""

    python: Path
    torch: str
    vllm: str
    installed: bool


@dataclass(frozen=True, slots=True)
class _Stamp:
    lock_sha256: str
    torch: str
    vllm: str


def ensure(
    folder: Path,
    *,
    uv: Path,
    python: str = sys.executable,
    torch: TorchFrom = "auto",
    lock_file: Path = LOCK_FILE,
    progress: ProgressCallback = silent,
    wait_s: float = WAIT_FOR_OTHERS_S,
) -> Environment:
    """Return the environment in `folder`, installing it unless a finished one is there.

    A stamp, written last, names the lock's hash: an interrupted install has none and is done
    again, as is one of another lock. A lock file beside the folder keeps two installs apart.
    Raises InstallError with uv's last line, and InstallBusyError after `wait_s`.
    """
    wanted = hashlib.sha256(_lock_bytes(lock_file)).hexdigest()
    if found := _finished(folder, wanted):
        return found

    def waiting(waited_s: float) -> None:
        doing = "waiting for another install into the same folder"
        progress(Progress("wait", doing, "running", elapsed_s=waited_s))

    with lock.held(folder.with_name(folder.name + ".lock"), timeout_s=wait_s, waiting=waiting):
        if found := _finished(folder, wanted):
            return found
        _clear(folder)
        install = _Install(folder, uv, python, lock_file, progress)
        return install.run(torch, wanted)


def _lock_bytes(lock_file: Path) -> bytes:
    try:
        return lock_file.read_bytes()
    except OSError as error:
        raise InstallError(
            f"The lock file {lock_file} cannot be read ({error.strerror}).",
            "restore it from the repository.",
        ) from error


def python_of(folder: Path) -> Path:
    """The interpreter of the environment in `folder`."""
    return folder / "bin" / "python"


def _finished(folder: Path, wanted: str) -> Environment | None:
    try:
        stamp = _Stamp(**json.loads((folder / STAMP).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    if stamp.lock_sha256 != wanted or not python_of(folder).exists():
        return None
    return Environment(python_of(folder), stamp.torch, stamp.vllm, installed=False)


def _clear(folder: Path) -> None:
    """Remove what an earlier install left; never a folder that is not an environment."""
    if not folder.exists():
        return
    if any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        raise InstallError(
            f"{folder} exists and is not a Python environment.",
            "move it away, or choose another folder.",
        )
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class _Install:
    folder: Path
    uv: Path
    python: str
    lock_file: Path
    progress: ProgressCallback

    def run(self, torch: TorchFrom, wanted: str) -> Environment:
        # pyvenv.cfg is the first file that uv writes, so that an interrupted one is known as ours.
        self._uv(MAKE, "venv", "--quiet", "--python", self.python, self.folder)
        small = torch == "auto" and self._cpu_wheels_answer() and self._install_cpu_torch()
        with tempfile.TemporaryDirectory(prefix="nearfar-") as scratch:
            chosen = self._without_cuda(Path(scratch)) if small else self.lock_file
            self._pip(PACKAGES_SMALL if small else PACKAGES, "--require-hashes", "-r", chosen)
        versions = self._check()
        stamp = _Stamp(wanted, versions["torch"], versions["vllm"])
        self._write(stamp)
        return Environment(python_of(self.folder), stamp.torch, stamp.vllm, installed=True)

    def _uv(self, step: Step, *words: str | Path) -> Outcome:
        try:
            outcome = steps.run(step, [self.uv, *words], progress=self.progress)
        except OSError as error:
            raise InstallError(
                f"uv could not be started at {self.uv} ({error.strerror}).",
                "install uv, or pass the path of a working one.",
            ) from error
        return _required(step, outcome)

    def _pip(self, step: Step, *words: str | Path) -> Outcome:
        # The lock is complete, and vLLM's own metadata asks for a version that it replaces:
        # hence no dependencies. Compiled once here, imports take half as long at each start.
        where = ("--python", python_of(self.folder), "--no-deps", "--compile-bytecode")
        return self._uv(step, "pip", "install", *where, *words)

    def _torch_version(self) -> str:
        found = re.search(
            r"^torch==(\S+)", self.lock_file.read_text(encoding="utf-8"), re.MULTILINE
        )
        if found is None:
            raise InstallError(f"{self.lock_file} pins no torch.", "make the lock again.")
        return found[1]

    def _cpu_wheels_answer(self) -> bool:
        """Ask uv, shortly and once, whether PyTorch's own index has this version for a CPU."""
        words = [str(self.uv), "pip", "install", "--python", str(python_of(self.folder))]
        words += ["--dry-run", "--no-deps", "--torch-backend", "cpu"]
        words += [f"torch=={self._torch_version()}"]
        short = {**os.environ, "UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
        try:
            asked = subprocess.run(
                words, env=short, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return False
        return asked.returncode == 0 and "+cpu" in asked.stdout + asked.stderr

    def _install_cpu_torch(self) -> bool:
        """Install them; an index that gives up half-way leaves the lock as the sure way."""
        wanted = f"torch=={self._torch_version()}"
        try:
            self._pip(TORCH, "--torch-backend", "cpu", wanted)
        except InstallError:
            return False
        return True

    def _without_cuda(self, scratch: Path) -> Path:
        """Write the lock without torch and what only its CUDA build needs."""
        path = scratch / "requirements.lock"
        path.write_text(without_cuda(self.lock_file.read_text(encoding="utf-8")), encoding="utf-8")
        return path

    def _check(self) -> dict[str, str]:
        """Import vLLM once, which finds a missing library now and not at the first start."""
        argv: list[str | Path] = [python_of(self.folder), "-c", _CHECK_CODE]
        outcome = _required(CHECK, steps.run(CHECK, argv, progress=self.progress))
        for line in outcome.tail:
            if line.startswith('{"torch"'):
                versions: dict[str, str] = json.loads(line)
                return versions
        raise InstallError("vLLM was imported but told no version.", "run the same command again.")

    def _write(self, stamp: _Stamp) -> None:
        unfinished = self.folder / f"{STAMP}.part"
        unfinished.write_text(json.dumps(asdict(stamp)), encoding="utf-8")
        unfinished.replace(self.folder / STAMP)


def without_cuda(locked: str) -> str:
    """Return the text of a lock without the entries that only PyTorch's CUDA build needs."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", locked)
    return "".join(entry for entry in entries if not _CUDA_ONLY.match(entry))


def _required(step: Step, outcome: Outcome) -> Outcome:
    if outcome.status == 0:
        return outcome
    how = "took too long" if outcome.status is None else f"ended with status {outcome.status}"
    raise InstallError(
        f"The step '{step.doing}' {how}: {outcome.last_line.strip()}.",
        "check the network and the free disk space, and run the same command again.",
    )
