"""What timing and headers tell one tenant of another: `just tenancy [--pairs 1000]`.

A classifier on first byte, first content, end and gaps must stay a coin's: between 0.45 and 0.55
AUC at a thousand pairs, wider for fewer as chance demands. Exit codes: 0 so it is, 1 something
tells.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nearfar.interrupt import stop_on_signals

from .judge import FEATURES, TOGETHER, allowed
from .run import Finding, tenancy

_TOLD = {
    "other's": "another tenant's hit beside a miss",
    "underway": "another tenant's running answer beside a miss",
    "own": "control: an own hit beside a miss",
    "planted": "control: a server that is later by what was planted",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Results go to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(prog="tenancy", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with stop_on_signals(), tempfile.TemporaryDirectory() as folder:
        found = tenancy(given.pairs, Path(folder), _say, given.seed)
    if given.json:
        print(json.dumps([{**asdict(each), "right": each.right} for each in found]))
    else:
        print("\n".join(lines(found)))
    return int(not all(each.right for each in found))


def lines(found: Sequence[Finding]) -> list[str]:
    """A table: how well a guess by each figure, and by all, tells the two kinds apart."""
    names = [name.removesuffix("_ms").replace("_", " ") for name in FEATURES]
    told = [f"{'AUC, 0.5 is a coin':<47} {'pairs':>5}  {'  '.join([*names, TOGETHER])}"]
    for each in found:
        figures = [each.figures[name] for name in (*FEATURES, TOGETHER)]
        columns = [
            f"{figure:>{len(name)}.3f}"
            for figure, name in zip(figures, [*names, TOGETHER], strict=True)
        ]
        told.append(
            f"{_TOLD[each.kind]:<47} {each.pairs:>5}  {'  '.join(columns)}  {_verdict(each)}"
        )
    return told


def _verdict(each: Finding) -> str:
    if each.control:
        return (
            "told apart, as it must be" if each.right else "NOT told apart: this run says nothing"
        )
    if not each.same_heads:
        return "THE HEADERS TELL"
    bound = allowed(each.pairs)
    within = f"{0.5 - bound:.2f} to {0.5 + bound:.2f}"
    return f"not told apart ({within})" if each.right else f"TOLD APART (outside {within})"


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
