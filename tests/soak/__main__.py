"""Mixed requests of three tenants while Redis and the upstream fail: `just soak [--count 10000]`.

Every request ends in a whole answer or a clear error, no answer crosses tenants, and the gate's
usage equals the upstream's own count. Exit codes: 0 so it was, 1 it was not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nearfar.interrupt import stop_on_signals

from .report import lines
from .run import soak


def main(arguments: Sequence[str] | None = None) -> int:
    """Results go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with stop_on_signals(), tempfile.TemporaryDirectory() as folder:
        found = soak(given.count, Path(folder), _say, given.seed)
    if given.json:
        books = [[book.tenant, book.upstream, book.agrees] for book in found.books]
        print(json.dumps({**found.counts, "trouble": found.trouble, "books": books}))
    else:
        print("\n".join(lines(found)))
    return int(not found.right)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
