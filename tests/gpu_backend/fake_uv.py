"""A stand-in for uv: the real one would download 3 GB. It is a program of its own, called as the
real one is. It notes its calls, makes an "environment" whose interpreter prints versions, and
fails, hangs or answers for PyTorch's CPU index as its environment variables say."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(words: list[str]) -> int:
    with Path(os.environ["FAKE_UV_LOG"]).open("a") as log:
        log.write(json.dumps(words) + "\n")
    if words[0] == "venv":
        return _venv(Path(words[-1]))
    if "--dry-run" in words:
        print(os.environ.get("FAKE_UV_PROBE", ""), file=sys.stderr)
        return 0 if "FAKE_UV_PROBE" in os.environ else 2
    return _install(words)


def _venv(folder: Path) -> int:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("made by a stand-in for uv\n")
    python = folder / "bin" / "python"
    python.write_text('#!/bin/sh\necho \'a warning\'\necho \'{"torch": "2.13.0", "vllm": "0"}\'\n')
    python.chmod(0o755)
    return 0


def _install(words: list[str]) -> int:
    if "--torch-backend" in words and "FAKE_UV_TORCH_FAILS" in os.environ:
        return 1
    if "-r" in words:
        Path(os.environ["FAKE_UV_LOG"]).with_name("installed.txt").write_text(
            Path(words[words.index("-r") + 1]).read_text()
        )
    print("Downloading torch (2.0MiB)", file=sys.stderr, flush=True)
    print(" Downloaded torch", file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("FAKE_UV_SLEEP_S", "0")))
    if "FAKE_UV_FAILS" in os.environ:
        print("error: no space left on device", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
