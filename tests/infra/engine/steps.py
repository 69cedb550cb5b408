"""The steps of one pass over the whole deployment, in order; each raises what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from nearfar.client import Question, ask
from nearfar.exchange import TIMEOUT, Edge

from . import canary, checks, plan
from .api import Api
from .bed import Bed
from .controllers import wait_for
from .deployment import Deployment, Failed, Outcome
from .stages import BROKEN

_SECRET_OUTPUTS = ("firstApiKey", "keySecret", "grafanaPassword")


class Broken(AssertionError):
    """A step found something wrong."""


@dataclass(slots=True)
class Pass:
    """One stack on its way through the steps; `secrets` grow with what the deployment makes."""

    bed: Bed
    deployment: Deployment
    secrets: set[str] = field(default_factory=lambda: set(canary.PLANTED), repr=False)
    api: Api = field(init=False)

    def __post_init__(self) -> None:
        self.api = self.bed.plane.api()


Step = Callable[[Pass], Outcome | None]


def previewed(run: Pass) -> Outcome:
    """A preview with nothing there knows what it would make, and makes nothing."""
    outcome = run.deployment.preview()
    _none(run.bed.account.read().billed())
    _none(checks.left(run.api))
    _hold(outcome.changes.get("create", 0) > 50, f"few resources: {outcome.changes}")
    return outcome


def deployed(run: Pass) -> Outcome:
    """One up, and everything is where it belongs."""
    outcome = run.deployment.up()
    outputs = run.deployment.outputs()
    run.secrets |= {outputs[name] for name in _SECRET_OUTPUTS if outputs.get(name)}
    run.secrets.add(run.bed.plane.token)
    stands(run)
    _hold(_answer(outputs) != "", "the edge answered with an empty text")
    _hold(bool(run.bed.cloud.fetched), "no chart came from the mirror")
    return outcome


def unchanged(run: Pass) -> Outcome:
    """A second up changes nothing."""
    outcome = run.deployment.up()
    _hold(outcome.changed == 0, f"a second up changed something: {outcome.changes}")
    return outcome


def broken(run: Pass) -> None:
    """An image that does not exist fails the up in words; the edge keeps its old half."""
    plan.pins(run.bed.home / "pins.toml", vllm=BROKEN)
    before = run.bed.functions.apps["nearfar"].edge.url
    try:
        run.deployment.up()
    except Failed as failed:
        said = failed.text
    else:
        raise Broken("an up with an image that does not exist succeeded")
    _hold("ImagePullBackOff" in said and "nearfar-serving" in said, f"it did not say why: {said}")
    _hold(run.bed.functions.apps["nearfar"].edge.url == before, "the edge was deployed anew")


def recovered(run: Pass) -> Outcome:
    """The next up with the right image is whole again."""
    plan.pins(run.bed.home / "pins.toml")
    outcome = run.deployment.up()
    stands(run)
    _none(_lost(run))
    _hold(_answer(run.deployment.outputs()) != "", "the edge answered with an empty text")
    return outcome


def destroyed(run: Pass) -> Outcome:
    """A destroy leaves nothing: not in the cluster, not on the bill, not at the edge."""
    outcome = run.deployment.destroy()
    state = run.bed.account.read()
    _none(checks.left(run.api))
    _none(state.billed())
    _none(state.clusters_left)
    _none(run.bed.functions.apps)
    _none((run.deployment.stack().export_stack().deployment or {}).get("resources") or [])
    return outcome


def unseen(run: Pass) -> None:
    """No planted or made secret stands in a state, a backup, a log or an argument list."""
    home = run.bed.home
    calls = [{n: v for n, v in call.items() if n != "variables"} for call in run.bed.spin.calls]
    run.secrets |= {
        value
        for call in run.bed.spin.calls
        for given in call["variables"]
        for name, value in given.items()
        if name in {"key_secret", "upstream_keys", "gate_secret"} and value
    }
    (home / "logs" / "spin-calls.json").write_text(json.dumps(calls))
    places = {"state": run.deployment.backend, "log": home / "logs", "project": home / "project"}
    places |= {f"edge log {path.name}": path for path in home.glob("edge-*.log")}
    _none(canary.found(places, tuple(run.secrets)))


PASS: tuple[Step, ...] = (
    previewed,
    deployed,
    unchanged,
    broken,
    recovered,
    destroyed,
    unseen,
)


def start(bed: Bed, name: str = "test") -> Pass:
    """A pass over the whole configuration."""
    return Pass(bed, plan.deployment(bed, name))


def stands(run: Pass, spared: frozenset[str] = frozenset()) -> None:
    """Everything runs where it belongs, and policies mean somebody."""
    wait_for("all pods run", lambda: not list(checks.pods(run.api)), 90)
    for check in (checks.pods, checks.placement, checks.references, checks.engine):
        _none(check(run.api))
    _none(checks.policies(run.api, spared))
    _none(checks.images(run.api, run.bed.cloud.url))
    run.bed.plane.check()


def _lost(run: Pass) -> list[str]:
    """What the state says is there, and is not: a refresh would see it gone."""
    outcome = run.deployment.refresh()
    return [f"{n} {what} in a refresh" for what, n in outcome.changes.items() if what != "same"]


def _answer(outputs: dict[str, Any]) -> str:
    """Ask the deployed edge as a client does, with the first tenant's key."""
    edge = Edge(outputs["chatUrl"].removesuffix("/v1"), outputs["firstApiKey"])
    messages = [{"role": "user", "content": "Name a river."}]
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as session:
        question = Question(outputs["model"], messages, temperature=0, max_tokens=16)
        return ask(edge, question, lambda _: None, session).text


def _hold(right: bool, words: str) -> None:
    if not right:
        raise Broken(words)


def _none(found: Iterable[object]) -> None:
    """Raise with everything that was found."""
    lines = [str(each) for each in found]
    if lines:
        raise Broken("; ".join(lines))
