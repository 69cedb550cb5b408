"""Further steps, for a recipe of their own: they take longer than a run of all tests should."""

from __future__ import annotations

from . import plan, steps
from .controllers import wait_for
from .deployment import Failed, Outcome
from .steps import Broken, Pass, Step

# The Job's pod has ended, and is gone with its node.
_FETCHING = frozenset({"nearfar-serving/to-mirror", "nearfar-serving/to-model-hub"})


def resumed(run: Pass) -> Outcome:
    """An up that ends after the pools is taken up where it ended."""
    with run.bed.account.open() as state:
        state.faults["create DomainRecord"] = 1
    try:
        run.deployment.up()
    except Failed as failed:
        if "internal error" not in failed.text:
            raise
    else:
        raise Broken("an up with a fault succeeded")
    before = run.bed.account.read().things["LkeNodePool"]
    outcome = steps.deployed(run)
    if run.bed.account.read().things["LkeNodePool"] != before:
        raise Broken("the pools were made anew")
    return outcome


def recycled(run: Pass) -> Outcome:
    """Recycled nodes come back with labels and taint; a refresh and an up change nothing."""
    with run.bed.account.open() as state:
        for pool in state.of("LkeNodePool").values():
            pool["nodes"] = [f"{name}-recycled" for name in pool["nodes"]]
        run.bed.nodes().match(state)
    # The pod collector takes pods of lost nodes away after a minute.
    wait_for("all pods are on nodes that exist", lambda: not _orphans(run), 180)
    steps.stands(run, _FETCHING)
    run.deployment.refresh()
    return steps.unchanged(run)


def remodelled(run: Pass) -> Outcome:
    """Another context length starts vLLM anew and nothing else that holds state."""
    run.deployment.config = plan.config(run.bed, contextTokens="4096")
    outcome = run.deployment.up()
    if "replace" in outcome.changes and outcome.changes["replace"] > 4:
        raise Broken(f"much was replaced: {outcome.changes}")
    steps.stands(run, _FETCHING)
    return steps.unchanged(run)


def _orphans(run: Pass) -> set[str]:
    """Nodes that pods name and that are gone."""
    named = {pod["spec"].get("nodeName", "") for pod in run.api.list("pods")}
    return named - {node["metadata"]["name"] for node in run.api.list("nodes")}


PASS: tuple[Step, ...] = (resumed, recycled, remodelled, steps.destroyed, steps.unseen)
