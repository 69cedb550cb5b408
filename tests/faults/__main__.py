"""Runs the tests of every kind of fault and prints how each kind stands: `just faults`.

    just faults [--kind 6] [--json]

The table goes to stdout, what pytest says to stderr. Exit codes: 0 nothing failed, 1 a kind did.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence

import pytest

from .kinds import KINDS
from .tally import Tally, table

FOLDERS = (
    *("tests/stack", "tests/edge_frontend", "tests/gpu_backend", "tests/nearfar"),
    *("tests/infra/components", "tests/infra/plugin"),
    *("tests/infra/test_manifests.py", "tests/infra/test_program.py"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="faults", description=(__doc__ or "").split("\n")[0])
    numbers = [kind.number for kind in KINDS]
    parser.add_argument("--kind", type=int, action="append", choices=numbers, help="default: all")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    tally = Tally(frozenset(given.kind or ()))
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main(["-q", "-m", "fault", *FOLDERS], plugins=[tally])
    rows = tally.rows()
    if given.json:
        found = [
            {"kind": r.kind.number, "title": r.kind.title, "end": r.end, "tests": r.tests}
            | {"note": r.note}
            for r in rows
        ]
        print(json.dumps(found))
    else:
        print(table(rows))
    return int(code != pytest.ExitCode.OK or any(row.end == "fail" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
