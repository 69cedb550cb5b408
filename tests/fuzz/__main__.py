"""Sends malformed requests to the real component: `just fuzz [--count 20000] [--seed 0]`.

Every reply must be an OpenAI error object or a right answer, and none a 5xx: the upstream behind
the edge is well. Exit codes: 0 all were, 1 some were not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stack.alone import Alone

from .cases import Maker
from .report import lines
from .run import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Results go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Alone(Path(folder)) as alone:
        maker = Maker(alone.key, given.seed)
        outcome = asyncio.run(run(alone.edge.url, maker, given.count, _say))
        faults = alone.faults()
    if given.json:
        ends = {f"{kind}: {end}": n for (kind, end), n in sorted(outcome.ends.items())}
        found = {"sent": outcome.sent, "wrong": outcome.wrong_count, "faults": faults, "ends": ends}
        print(json.dumps(found))
    else:
        print("\n".join(lines(outcome, faults)))
    return int(bool(outcome.wrong_count or faults))


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
