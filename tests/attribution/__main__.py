"""The attribution benchmark.

    python -m tests.attribution --runs 100          (just attribution)

A delay of random size is put at one of ten places, or at none, on one of two sides of the real
stack; both are measured in turns, and the comparison, which sees only the two recorded runs, says
which part explains the difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attribution.bench import Attribution, Bench, drawn
from attribution.places import BY_NAME, NOTHING, NOWHERE, PLACES, UNSEEN, Injection


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and print the tables; 1 when it claimed what it could not see."""
    parser = argparse.ArgumentParser(prog="attribution", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every run there, a line each")
    parser.add_argument("--from", dest="source", type=Path, help="only print the tables of that")
    given = parser.parse_args(arguments)
    print("\n".join(how()))
    if given.source:
        lines = given.source.read_text(encoding="utf-8").splitlines()
        kept = [undocument(json.loads(line)) for line in lines]
        print("\n".join(["", *matrix(kept), "", *summary(kept)]))
        return 1 if claimed_unseen(kept) else 0
    found: list[Attribution] = []
    with tempfile.TemporaryDirectory() as folder, Bench(Path(folder)) as bench:
        for injection in drawn(given.runs, given.seed):
            found.append(bench.attribute(injection))
            _tell(found[-1], len(found), given.runs)
            if given.json:
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(document(found[-1])) + "\n")
    print("\n".join(["", *matrix(found), "", *summary(found)]))
    return 1 if claimed_unseen(found) else 0


def how() -> list[str]:
    """How each place is slowed, and the best that can be proved of it."""
    lines = ["place             best verdict          how it is slowed"]
    lines += [f"{p.name:<17} {p.best:<21} {p.how}" for p in PLACES]
    return lines


def matrix(found: Sequence[Attribution]) -> list[str]:
    """Where the delay was, and what was said: counts."""
    names = list(
        dict.fromkeys([*(p.best for p in PLACES if p.built), *(one.said for one in found)])
    )
    counts = Counter((one.injection.place.name, one.said) for one in found)
    letters = [chr(ord("a") + at) for at in range(len(names))]
    width = 4
    head = " ".join(f"{letter:>{width}}" for letter in letters)
    lines = [f"{'delayed, said →':<17} {head}"]
    for place in PLACES:
        if not place.built:
            lines.append(f"{place.name:<17} not built yet")
            continue
        row = " ".join(f"{counts[place.name, name] or '·':>{width}}" for name in names)
        lines.append(f"{place.name:<17} {row}")
    said = ", ".join(f"{letter} {name}" for letter, name in zip(letters, names, strict=True))
    return [*lines, f"said: {said}"]


def summary(found: Sequence[Attribution]) -> list[str]:
    """The rates that count."""
    put = [one for one in found if one.injection.place.name != NOWHERE]
    none = [one for one in found if one.injection.place.name == NOWHERE]
    silent = sum(one.said == NOTHING for one in put)
    wrong = sum(not one.right and one.said != NOTHING for one in put)
    return [
        f"the best verdict that can be proved: {sum(one.right for one in put)} of {len(put)}",
        f"named another part: {wrong} of {len(put)}; named none: {silent} of {len(put)}",
        f"claimed what it could not see: {len(claimed_unseen(found))} of {len(found)} (must be 0)",
        f"found something where nothing was: {sum(not o.right for o in none)} of {len(none)}",
    ]


def claimed_unseen(found: Sequence[Attribution]) -> list[Attribution]:
    """Runs in which a link or a start was named, for which no probe was there."""
    return [one for one in found if one.said in UNSEEN or "link" in one.said]


def document(one: Attribution) -> dict[str, object]:
    """One run for a file."""
    return {
        "place": one.injection.place.name,
        "delay_ms": round(one.injection.delay_ms, 3),
        "side": one.injection.side,
        "seed": one.injection.seed,
        "best": one.injection.place.best,
        "said": one.said,
        "also": one.also,
        "share": one.share,
    }


def undocument(kept: Mapping[str, Any]) -> Attribution:
    """The run that a line of a file holds."""
    place = BY_NAME[kept["place"]]
    injection = Injection(place, kept["delay_ms"], kept["side"], kept["seed"])
    return Attribution(injection, kept["said"], kept["also"], kept["share"])


def _tell(one: Attribution, number: int, of: int) -> None:
    injection = one.injection
    mark = "right" if one.right else "WRONG"
    print(
        f"{number}/{of} {injection.place.name} {injection.delay_ms:.0f} ms {injection.side}: "
        f"{one.said} ({mark})",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
