"""Two deployments measured in turns, from the options of `nearfar compare`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearfar import checkout, console, runs
from nearfar.commands import load_options, target
from nearfar.commands.bench import without_secrets
from nearfar.load import session, turns
from nearfar.load.plan import Naming
from nearfar.load.session import Session
from nearfar.load.watch import Watch, watching
from nearfar.runs import Run

REQUESTS = 200


def measured(
    urls: tuple[str, str],
    keys: tuple[str | None, str | None],
    models: tuple[str | None, str | None],
    rounds: int,
    out: Path | None,
    given: Mapping[str, Any],
) -> tuple[Run, Run, bool]:
    """Measure both; the runs, and whether ctrl-C ended them early.

    Raises:
        BadInput, Missing, Refused: see `nearfar.load.turns.run`.
    """
    wanted = dict(given)
    if wanted["requests"] is None and wanted["duration"] is None and wanted["trace"] is None:
        wanted["requests"] = REQUESTS
    asked = load_options.read(wanted)
    ats = [target.find(u, k, m) for u, k, m in zip(urls, keys, models, strict=True)]
    plans = [replace(asked.plan(at.model), blocks=rounds) for at in ats]
    name = session.new_name()
    folder = out or checkout.here().private / "runs"
    paths = [folder / f"{name}-{arm}.jsonl" for arm in turns.ARMS]
    with watching(plans[0]) as watch:
        before, after = (
            _session(asked, at, plan, path, f"{name}-{arm}")
            for at, plan, path, arm in zip(ats, plans, paths, turns.ARMS, strict=True)
        )
        ended = turns.run(_watched(before, watch), after)
    console.say(f"kept as {paths[0]} and {paths[1]}")
    return runs.read(paths[0]), runs.read(paths[1]), ended == "interrupted"


def _session(
    asked: load_options.Asked, at: target.Target, plan: Any, path: Path, name: str
) -> Session:
    return Session(
        edge=at.edge,
        plan=plan,
        manner=asked.manner,
        naming=Naming(label=name.rpartition("-")[2], command=without_secrets(sys.argv[1:])),
        objectives=asked.objectives,
        path=path,
        run=name,
    )


def _watched(one: Session, watch: Watch) -> Session:
    """The first side tells how far both are: they go in step."""
    return replace(one, began=watch.began, saw=watch.saw)
