"""nearfar coldstart: what starts cost, taken apart, and what three placements wait for."""

from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click

from nearfar import checkout, console
from nearfar.commands import target
from nearfar.errors import BadInput
from nearfar.interrupt import stop_on_signals
from nearfar.placement import campaign, kubeconfig, picture, pods, recording, views
from nearfar.placement.recording import Recording
from nearfar.placement.subjects import PLACEMENTS, SUBJECTS, Placement, wanted

HELP = """Start the parts of three placements again and again, and show what each step takes.

\b
one-box    path and model on one GPU box: a plain server process beside vLLM
container  the path as a serverless container, the model elsewhere
split      the path as a component at the edge, the model elsewhere

Everything is started on this machine, beside a stack that may be running. What cannot be seen from
here (a machine's boot, an image's way) says so and is not counted. Raw lines go to a file as they
come; ctrl-C keeps what was measured. With --kubeconfig, pods that exist are read; only --renew
deletes one.

\b
Examples:
  nearfar coldstart
  nearfar coldstart --placement all --repeats 20 --slow-repeats 3 --png starts.png
  nearfar coldstart --subject edge-instance --subject container --json
  nearfar coldstart --kubeconfig lke.yaml --namespace gpu --subject pod
  nearfar coldstart --kubeconfig lke.yaml --subject pod --renew 3 --endpoint https://edge.example
  nearfar coldstart --read .nearfar/run/coldstart-20261130T120000Z.jsonl --svg starts.svg
"""


@click.command("coldstart", help=HELP)
@click.option(
    "--placement",
    type=click.Choice([*PLACEMENTS, "all"]),
    default="all",
    show_default=True,
    help="What is measured and shown.",
)
@click.option(
    "--subject",
    "chosen",
    multiple=True,
    type=click.Choice([name for name in SUBJECTS if name != "pod-answer"]),
    help="Only this part; may be given again. Default: all that the placement needs.",
)
@click.option("--repeats", type=click.IntRange(0, 1000), default=10, show_default=True,
              help="Of quick starts.")  # fmt: skip
@click.option("--slow-repeats", type=click.IntRange(0, 100), default=1, show_default=True,
              help="Of compiling and of vLLM; 0 leaves them out.")  # fmt: skip
@click.option("--interval", "interval_s", type=click.FloatRange(0, 3600), default=0.2,
              show_default=True, help="Seconds of rest between two measurements.")  # fmt: skip
@click.option("--profile", default="cpu-small", show_default=True, help="What vLLM serves.")
@click.option("--kubeconfig", "config", type=click.Path(path_type=Path), help="Read pods too.")
@click.option("--context", help="A context of it. Default: its current one.")
@click.option("--namespace", help="Of the pods. Default: the context's.")
@click.option("--selector", default="app.kubernetes.io/name=vllm", show_default=True,
              help="Labels of the pods.")  # fmt: skip
@click.option("--renew", type=click.IntRange(0, 100), default=0,
              help="Delete a pod so many times, and follow its successor.")  # fmt: skip
@click.option("--endpoint", envvar="NEARFAR_ENDPOINT", help="With --renew: ask this edge then.")
@click.option("--api-key", envvar="NEARFAR_API_KEY", help="API key, or NEARFAR_API_KEY.")
@click.option("--model", help="Model to ask there. Default: the first one offered.")
@click.option("--read", "source", type=click.Path(path_type=Path), help="Show an earlier run.")
@click.option("--out", type=click.Path(path_type=Path), help="Raw lines. Default: in .nearfar/run.")
@click.option("--png", type=click.Path(path_type=Path), help="Draw the placements.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw the placements.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(source: Path | None, as_json: bool, **given: Any) -> int:
    for name in ("png", "svg"):
        if given[name] is not None and given[name].suffix.lower() != f".{name}":
            raise BadInput(f"--{name} {given[name]} does not end in .{name}.", f"name it x.{name}")
    placements = PLACEMENTS if given["placement"] == "all" else (given["placement"],)
    found = recording.read(source) if source else _measured(placements, given)
    if as_json:
        console.result_json(found.document())
    else:
        _show(found, cast(tuple[Placement, ...], placements))
    for path in (given["png"], given["svg"]):
        if path is not None:
            caption = f"{found.header.started_at}, {found.header.machine.get('processor', '')}"
            picture.draw(views.panels(found, placements), path, caption)
            console.say(f"drew {path}")
    return 130 if found.reason == "interrupted" and source is None else 0


def _measured(placements: tuple[Placement, ...], given: dict[str, Any]) -> Recording:
    """Measure, and keep what there is when it is interrupted."""
    here = checkout.here()
    config = given["config"]
    if given["renew"] and config is None:
        raise BadInput("--renew needs --kubeconfig.", "nearfar coldstart --help")
    if "pod" in given["chosen"] and config is None:
        raise BadInput("--subject pod needs --kubeconfig.", "nearfar coldstart --help")
    at = None
    if given["renew"] and given["endpoint"]:
        at = target.find(given["endpoint"], given["api_key"], given["model"])
    subjects = given["chosen"] or (*wanted(placements), *(("pod",) if config else ()))
    cluster = kubeconfig.read(config, given["context"]) if config else None
    plan = campaign.Plan(
        subjects=tuple(subjects),
        repeats=given["repeats"],
        slow_repeats=given["slow_repeats"],
        interval_s=given["interval_s"],
        profile=given["profile"],
        renew=given["renew"],
        edge=at.edge if at else None,
        model=at.model if at else "",
    )
    out = given["out"] or here.make_run() / f"coldstart-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl"
    found = recording.begin(
        sys.argv[1:], placements, subjects, (plan.repeats, plan.slow_repeats), out
    )
    ways = pods.asked(cluster, given["selector"], given["namespace"]) if cluster else nullcontext()
    reason = "failed"
    try:
        with stop_on_signals(), console.progress() as progress, ways as asked:
            campaign.Campaign(here, plan, found, console.say, progress).run(
                asked if "pod" in subjects else None
            )
        reason = "done"
    except KeyboardInterrupt:
        console.say("interrupted; what was measured is kept")
        reason = "interrupted"
    finally:
        found.end(reason)
        console.say(f"raw lines: {out}")
    return found


def _show(found: Recording, placements: tuple[Placement, ...]) -> None:
    width = shutil.get_terminal_size((100, 24)).columns
    console.result("\n".join(views.table(found)))
    if any(found.of(name, "cold") for name in ("container", "edge-instance", "engine")):
        console.result("\nPlacements (medians; parts measured apart on this machine)")
        console.result("\n".join(views.placements(found, placements)))
        console.result("\n" + "\n".join(picture.text(views.panels(found, placements), width)))
