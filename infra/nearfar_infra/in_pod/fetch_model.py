"""Puts a model's weights and the gate's libraries onto a volume, once; run again, it does nothing.

    fetch_model.py [--libraries FILE --libraries-to FOLDER] [--folder FOLDER …]
                   [--model NAME --revision COMMIT]

Weights go into the hub's own cache layout under HF_HOME, libraries by hash into a folder of
their own. What is complete has a mark beside it; only marks of this revision are trusted.
Exit codes: 0 everything is there, 1 something could not be fetched (the last line says what).
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

MARK = ".complete"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("fetch_model")
    parser.add_argument("--libraries", type=Path, help="requirements with hashes")
    parser.add_argument("--libraries-to", type=Path, help="folder to install into")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="folder to make")
    parser.add_argument("--model", help="its name at the hub; none: libraries alone")
    parser.add_argument("--revision", help="the commit that is fetched")
    asked = parser.parse_args(argv)
    try:
        for folder in asked.folder:
            folder.mkdir(parents=True, exist_ok=True)
        if asked.libraries:
            install(asked.libraries, asked.libraries_to)
        if asked.model:
            fetch(asked.model, asked.revision, Path(os.environ["HF_HOME"]))
    except Exception as error:  # noqa: BLE001 - one line for the pod's termination message
        print(f"not fetched: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def install(libraries: Path, folder: Path) -> None:
    """Install exactly the files whose hashes are given; an index may be set for pip as usual."""
    if (folder / MARK).exists():
        print(f"libraries are in {folder}")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(folder.name + ".part")
    shutil.rmtree(made, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    pip += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*pip, "--target", str(made), "-r", str(libraries)], check=True)
    (made / MARK).touch()
    made.rename(folder)
    print(f"libraries are new in {folder}")


def fetch(model: str, revision: str, home: Path) -> None:
    """Download one revision and forget all others but the newest one before it."""
    mark = home / f"{model.replace('/', '--')}@{revision}{MARK}"
    if mark.exists():
        mark.touch()  # the newest again: what is older goes first
        print(f"{model} is there at {revision}")
        return
    hub = importlib.import_module("huggingface_hub")  # only the serving image has it
    path = hub.snapshot_download(model, revision=revision)
    forget(model, revision, home)
    mark.touch()
    print(f"{model} is new at {path}")


def forget(model: str, revision: str, home: Path) -> None:
    """Keep this revision and the one that may still be served; the volume holds two."""
    marks = sorted(home.glob(f"*@*{MARK}"), key=lambda mark: mark.stat().st_mtime, reverse=True)
    for mark in marks[1:]:
        name, _, commit = mark.name.removesuffix(MARK).rpartition("@")
        repository = home / "hub" / f"models--{name}"
        if name != model.replace("/", "--"):
            shutil.rmtree(repository, ignore_errors=True)
        elif commit != revision:
            _drop(repository, commit)
        mark.unlink()


def _drop(repository: Path, commit: str) -> None:
    """Remove a revision's links, and every blob that nothing links to any more."""
    shutil.rmtree(repository / "snapshots" / commit, ignore_errors=True)
    linked = {link.resolve() for link in repository.glob("snapshots/**/*") if link.is_symlink()}
    for blob in (repository / "blobs").glob("*"):
        if blob.resolve() not in linked:
            blob.unlink()


if __name__ == "__main__":
    sys.exit(main())
