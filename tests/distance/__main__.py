"""`just distance [--away 10 80 200] [--repeats 20] [--mode netem|router|proxy] [--json]`

Measures the three placements for users so many milliseconds away from the GPU, as round trips,
cached answers and the model's apart. Code 1 where a path answered otherwise than it was asked to.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from distance import links, places, run, table
from nearfar import build
from nearfar.checkout import here
from nearfar.interrupt import stop_on_signals

_INSIDE = "NEARFAR_DISTANCE_MODE"  # set in the namespace that the recipe makes for itself


def main() -> int:
    """Choose how to delay, go into a namespace of our own if that needs one, and measure."""
    asked = _arguments()
    component = build.component(here(), "wasmtime", say)
    inside = os.environ.get(_INSIDE)
    mode = inside or asked.mode or links.possible()[0]
    if mode not in links.possible() and not inside:
        print(f"distance: this machine does not permit {mode}.", file=sys.stderr)
        return 2
    if mode != "proxy" and not inside:
        os.environ[_INSIDE] = mode
        argv = ["unshare", "--net", sys.executable, "-m", "distance", *sys.argv[1:]]
        os.execvp("unshare", argv)  # noqa: S606 - ctrl-C has to reach it
    say(links.TOLD[mode])
    return measured(mode, component, asked)  # type: ignore[arg-type]


def measured(mode: links.Mode, component: Path, asked: argparse.Namespace) -> int:
    """Measure every place; what was measured before an interrupt is printed."""
    found, code = list[run.Found](), 0
    try:
        with (
            stop_on_signals(),
            tempfile.TemporaryDirectory() as folder,
            links.KINDS[mode]() as made,
            run.started(made, component, Path(folder)) as paths,
        ):
            for place in places.places(tuple(asked.away)):
                say(f"{place.title}, {place.away_ms:g} ms away")
                found.append(paths.measure(place, asked.repeats))
    except KeyboardInterrupt:
        say("interrupted; what was measured is kept")
        code = 130
    text = "\n".join(table.lines(found, mode))
    print(json.dumps({"mode": mode, "places": [asdict(f) for f in found]}) if asked.json else text)
    if asked.update is not None and not code:
        table.write_into(asked.update, text)
    return code or int(any(each.wrong for each in found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="just distance", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("--away", type=float, nargs="+", default=list(places.AWAY_MS), metavar="MS")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--mode", choices=list(links.KINDS), help="default: the best there is")
    parser.add_argument("--json", action="store_true", help="print every sample")
    parser.add_argument("--update", type=Path, metavar="PAGE", help="put the table into a page")
    return parser.parse_args()


def say(text: str) -> None:
    """Tell what is going on."""
    print(f"distance: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
