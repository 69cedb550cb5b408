"""Progress on stderr, with the seconds since the start."""

from __future__ import annotations

import sys
import time

_START = time.monotonic()


def say(text: str) -> None:
    """Write one line of progress."""
    sys.stderr.write(f"engine [{time.monotonic() - _START:6.1f} s] {text}\n")
    sys.stderr.flush()
