"""The edge as an app on Akamai Functions: built, deployed, read back, tried before it switches.

A change goes to a second app first, which is asked one question from outside. Only when that was
answered does the change reach the app that clients know; until then that one serves as it did.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_frontend import keys
from nearfar_infra.plugin import component, spin, trial
from nearfar_infra.plugin.kinds import (
    Change,
    Found,
    KindError,
    Made,
    Values,
    changed,
    wrong,
)
from nearfar_infra.plugin.spin import Akamai, App

_TYPES: Mapping[str, type] = {
    "name": str,
    "account": str,
    "labels": list,
    "variables": dict,
    "component": str,
    "trialSeconds": int,
}
# The trial's key ends by itself; nothing has to be revoked.
TRIAL_KEY_S = 3600
CANDIDATE = "-next"


@dataclass(frozen=True, slots=True)
class AkamaiApp:
    """`name` and `account` (empty: the login's), `labels` of key-value stores, `variables` of the
    manifest by name (secret), `trialSeconds` that a candidate may take to answer.

    `component` is filled in: the hash of the component's source. Output besides: `url`.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        inputs = {"account": "", "labels": ["default"], "trialSeconds": 600, **news}
        inputs["component"] = component.source()
        problems = wrong(inputs, _TYPES)
        name = inputs.get("name")
        if isinstance(name, str) and name.endswith(CANDIDATE):
            problems["name"] = f"must not end in {CANDIDATE!r}, as the candidate's does"
        return inputs, problems

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        known = {name: olds.get(name) for name in _TYPES}
        names = changed(known, news)
        return Change(names, tuple(name for name in names if name in ("name", "account")))

    def create(self, inputs: Values) -> Made:
        account = Akamai(inputs["account"])
        # An earlier run may have ended between the deploy and Pulumi's note of it.
        app = _deploy(account, inputs, inputs["name"], account.find(inputs["name"]))
        return Made(app.id, {**inputs, "url": app.url})

    def read(self, id_: str, outputs: Values) -> Found | None:
        account = Akamai(outputs.get("account", ""))
        name = outputs.get("name") or account.look("--app-id", id_).name
        app = account.find(name)
        if app is None or app.id != id_:
            return None
        if "variables" in outputs:
            return Found({**outputs, "name": app.name, "url": app.url})
        # An import: variables cannot be read back, so the next up sets them.
        inputs = {"name": app.name, "account": account.account}
        return Found({**inputs, "url": app.url}, inputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        account = Akamai(news["account"])
        _try(account, news)
        live = App(id_, news["name"], outputs["url"])
        return {**news, "url": _deploy(account, news, news["name"], live).url}

    def delete(self, id_: str, outputs: Values) -> None:
        account = Akamai(outputs.get("account", ""))
        for name in (outputs["name"], outputs["name"] + CANDIDATE):
            app = account.find(name)
            if app is not None:
                account.delete(app.id)


def _deploy(account: Akamai, inputs: Values, name: str, app: App | None) -> App:
    text, wasm = component.manifest(inputs["labels"]), component.spin_component()
    with spin.folder(text, wasm, inputs["variables"]) as folder:
        account.deploy(folder, folder / "variables.json", app, name)
    return account.look("--app-id", app.id) if app else account.look("--app-name", name)


def _try(account: Akamai, inputs: Values) -> None:
    """Deploy the change beside the app, ask it once, and take it away again."""
    name = inputs["name"] + CANDIDATE
    app = _deploy(account, inputs, name, account.find(name))
    try:
        variables = inputs["variables"]
        asked = trial.Asked(
            app.url, _trial_key(variables["key_secret"]), _model(variables["routes"])
        )
        trial.until_answered(asked, inputs["trialSeconds"])
    except trial.StageFailed as failed:
        raise KindError(
            f"The changed edge was tried beside the old one, and its stage '{failed.stage}' did "
            f"not answer ({failed.why.rstrip('.')}). The old one serves on.",
            failed.next_step,
        ) from failed
    finally:
        account.delete(app.id)


def _model(routes: str) -> str:
    """The first model of a route table, as clients name it."""
    models: Mapping[str, Any] = json.loads(routes)["models"]
    return next(iter(models))


def _trial_key(secret: str) -> str:
    ends = int(time.time()) + TRIAL_KEY_S
    return keys.mint(secret, keys.Claims(f"trial-{secrets.token_hex(4)}", "operator", ends))
