"""A stand-in for the conversion, which needs the 6 GB environment: it writes empty files under
the names of the real ones, or does what FAKE_CONVERTER says."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gpu_backend.model import FILES


def main(folder: Path) -> None:
    mode = os.environ.get("FAKE_CONVERTER", "good")
    with Path(os.environ["FAKE_CONVERTER_LOG"]).open("a") as log:
        log.write(f"{os.environ.get('HF_HUB_OFFLINE')}\n")
    for name in FILES[:3] if mode in ("half", "fails") else FILES:
        (folder / name).touch()
    if mode == "slow":
        time.sleep(0.5)
    if mode == "fails":
        sys.exit("no chat template")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
