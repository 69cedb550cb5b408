"""Runs the engine by hand: `python -m tests.infra.engine build|preview|pass|further`.

build    builds the programs where they are not in the cache
preview  prints what an up would make, with nothing there
pass     the whole pass: preview, up, up again, a broken image, recovery, destroy, no secrets left
further  a changed model, recycled nodes with a refresh, a fault after the pools
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from . import binaries, further, steps
from .bed import Bed
from .deployment import Failed
from .say import say
from .steps import Step

_STEPS: dict[str, tuple[Step, ...]] = {
    "preview": steps.PASS[:1],
    "pass": steps.PASS,
    "further": further.PASS,
}


def main(argv: list[str]) -> int:
    """Exit code 0 when everything held, 1 when a step did not."""
    parser = argparse.ArgumentParser(prog="engine", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("what", choices=["build", *_STEPS])
    parser.add_argument("--keep", type=Path, help="keep logs and states in this folder")
    options = parser.parse_args(argv)
    if options.what == "build":
        sys.stdout.write(f"{binaries.ensure().home}\n")
        return 0
    if options.keep:
        return _run(options.what, options.keep.resolve())
    with tempfile.TemporaryDirectory(prefix="nearfar-engine-") as folder:
        return _run(options.what, Path(folder))


def _run(what: str, home: Path) -> int:
    began = time.monotonic()
    with Bed(home) as bed:
        run = steps.start(bed)
        for step in _STEPS[what]:
            say(step.__doc__ or step.__name__)
            start = time.monotonic()
            try:
                outcome = step(run)
            except (steps.Broken, Failed) as error:
                sys.stdout.write(f"FAILED     {step.__name__}: {error}\n")
                return 1
            took = time.monotonic() - start
            line = outcome.line() if outcome else f"{step.__name__:<59} {took:6.1f} s"
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    sys.stdout.write(f"green      {what:<48} {time.monotonic() - began:6.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
