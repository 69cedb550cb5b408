"""Makes the private environment that the command line runs in, from lock files with hashes.

The launcher runs this file by its path, with whatever Python it found, before anything is
installed: only the standard library may be imported here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STAMP = "installed.lock"
EXIT_MISSING = 3


class EnvironmentFailed(Exception):
    """The environment could not be made; carries the next step."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.next_step = next_step


def ensure(env: Path, locks: list[Path]) -> None:
    """Make `env` hold exactly what `locks` name; of several that try at once one does the work."""
    wanted = b"".join(lock.read_bytes() for lock in locks)
    env.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(env.with_name(env.name + ".busy")):
        if _is_current(env, wanted):
            return
        (env / STAMP).unlink(missing_ok=True)
        uv = _uv(env.parent, locks[-1].parents[1] / "operator-cli" / "installer.lock")
        _say(f"installing the packages of {env.name} (once, a minute or two)")
        if not _works(env):
            _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(env)])
        python = str(env / "bin" / "python")
        _run([*uv, "pip", "sync", "--require-hashes", "--python", python, *map(str, locks)])
        _write_stamp(env, wanted)


def _is_current(env: Path, wanted: bytes) -> bool:
    stamp = env / STAMP
    return _works(env) and stamp.exists() and stamp.read_bytes() == wanted


def _works(env: Path) -> bool:
    """Whether the environment's Python still starts: the one it points to may be gone."""
    python = env / "bin" / "python"
    if not os.access(python, os.X_OK):
        return False
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", check], stderr=subprocess.DEVNULL).returncode == 0


def _write_stamp(env: Path, wanted: bytes) -> None:
    draft = env / f"{STAMP}.{os.getpid()}"
    draft.write_bytes(wanted)
    draft.replace(env / STAMP)


def _uv(home: Path, lock: Path) -> list[str]:
    """Find uv on PATH, or put it into a small environment beside the others."""
    found = shutil.which("uv")
    if found:
        return [found]
    own = home / "uv"
    if not (own / STAMP).exists() or (own / STAMP).read_bytes() != lock.read_bytes():
        _say("putting the installer (uv) into .nearfar/uv")
        shutil.rmtree(own, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(own)], no_venv=True)
        pip = [str(own / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--require-hashes", "-r", str(lock)])
        _write_stamp(own, lock.read_bytes())
    return [str(own / "bin" / "uv")]


def _run(argv: list[str], *, no_venv: bool = False) -> None:
    """Run one step of the installation; its output goes to stderr, and is shown as it comes."""
    env = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"):
        env.pop(name, None)
    result = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if result.returncode == 0:
        return
    if no_venv:
        raise EnvironmentFailed(
            f"{sys.executable} could not make a virtual environment.",
            "install uv or your system's package for venv (python3-venv), and run this again.",
        )
    raise EnvironmentFailed(
        f"'{Path(argv[0]).name} {argv[1]}' failed; its own words stand above.",
        "check that the package registry can be reached, and run this again.",
    )


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel takes back even from a killed process."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another nearfar is installing; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(f"nearfar: {text}\n")


def main(argv: list[str]) -> int:
    """Run `ENV LOCK...`; the exit code is 0, or 3 with one line that says why."""
    try:
        ensure(Path(argv[0]), [Path(lock) for lock in argv[1:]])
    except EnvironmentFailed as error:
        _say(f"{error}\nNext step: {error.next_step}")
        return EXIT_MISSING
    except OSError as error:
        _say(f"{error}\nNext step: make {Path(argv[0]).parent} writable, and run this again.")
        return EXIT_MISSING
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
