"""Serves from vLLM's snapshot where there is one that fits this machine, and makes one where not.

    serve_snapshot.py --folder FOLDER --port PORT -- VLLM FLAGS …

A snapshot belongs to one machine, driver, image and set of flags; another one is refused by vLLM
and made anew. If none can be made, vLLM starts as it does without. This process ends when the
server does not answer any more, so that the pod is started again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

MODULE = "vllm.entrypoints.openai.api_server"
WATCH_EVERY_S = 5.0
GONE_AFTER = 6

Run = Callable[[Sequence[str]], int]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("serve_snapshot")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("flags", nargs="+")
    asked = parser.parse_args(argv)
    private(asked.folder.parent)
    if not restored(asked.folder, asked.port, asked.flags, _run):
        print("no snapshot can be used here: an ordinary start", flush=True)
        os.execvp(sys.executable, [sys.executable, "-m", MODULE, *asked.flags])  # noqa: S606
    return watch(asked.port)


def private(folder: Path) -> None:
    """vLLM takes a snapshot only from folders that nobody else can write to."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(0o700)


def restored(folder: Path, port: int, flags: Sequence[str], run: Run) -> bool:
    """Restore, after making a snapshot if there is none or none that fits."""
    restore = ["vllm", "snapshot", "restore", str(folder), "--host", "127.0.0.1"]
    restore += ["--port", str(port)]
    if folder.exists():
        if run(restore) == 0:
            return True
        print("the snapshot does not fit this machine; making another", flush=True)
        shutil.rmtree(folder)
    made = run(["vllm", "snapshot", "create", *flags, "--snapshot-dir", str(folder)]) == 0
    return made and run(restore) == 0


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False).returncode


def watch(port: int) -> int:
    """Wait until the server has not answered for half a minute."""
    failed = 0
    while failed < GONE_AFTER:
        time.sleep(WATCH_EVERY_S)
        failed = 0 if _answers(port) else failed + 1
    print("the restored server does not answer any more", file=sys.stderr)
    return 1


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=4) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
