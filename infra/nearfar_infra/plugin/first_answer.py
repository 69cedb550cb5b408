"""The last step of an `up`: the deployed edge answers one question through its public address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from edge_frontend import keys
from nearfar.admin import Admin
from nearfar.errors import NearfarError
from nearfar_infra.plugin import trial
from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed, wrong

_TYPES: Mapping[str, type] = {
    "url": str,
    "apiKey": str,
    "operatorSecret": str,
    "model": str,
    "question": str,
    "ca": str,
    "deadlineSeconds": int,
    "follows": list,
}


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """`url`, `apiKey` (secret), `model`, `question`, `ca` (PEM; empty: the system's).

    `operatorSecret` (secret; empty: no) registers the key, so that `nearfar keys list` shows it.
    `follows` holds what the question follows from: when one of it changes, it is asked again.
    Outputs besides: the `answer`, its `requestId`, `milliseconds` to the first content.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        defaults: dict[str, object] = {
            "question": trial.QUESTION,
            "operatorSecret": "",
            "ca": "",
            "deadlineSeconds": 600,
            "follows": [],
        }
        inputs = {**defaults, **news}
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        # How long may be waited, and for whom the key is listed, is no reason to ask again.
        again = set(_TYPES) - {"deadlineSeconds", "operatorSecret"}
        return Change(
            changed({n: olds.get(n) for n in again}, {n: news.get(n) for n in again}),
        )

    def create(self, inputs: Values) -> Made:
        return Made("first-answer", self.update("first-answer", {}, inputs))

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        asked = trial.Asked(
            news["url"], news["apiKey"], news["model"], news["question"], ca=news["ca"]
        )
        try:
            answer = trial.until_answered(asked, news["deadlineSeconds"])
        except trial.StageFailed as failed:
            raise KindError(
                f"The edge at {asked.url} was asked one question, and the stage '{failed.stage}' "
                f"did not answer ({failed.why.rstrip('.')}).",
                failed.next_step,
            ) from failed
        if news["operatorSecret"]:
            _register(news)
        first_ms = answer.client.first_content_ms
        return {
            **news,
            "answer": answer.text,
            "requestId": answer.request_id,
            "milliseconds": first_ms,
        }

    def delete(self, id_: str, outputs: Values) -> None:
        """There is nothing to take away."""


def _register(inputs: Values) -> None:
    """Tell the edge about the first key; it works without that."""
    secret = inputs["operatorSecret"]
    try:
        claims = keys.verify(inputs["apiKey"], (secret,), time.time())
        Admin(inputs["url"], secret).register(claims, label="made by pulumi up")
    except keys.InvalidKey as error:
        raise KindError(
            "The first API key was not made with the operator's secret of this stack.",
            "remove the output's source: pulumi up --replace on the resource 'first-key'.",
        ) from error
    except NearfarError as error:
        raise KindError(
            f"The edge answered the question, but did not list the key: {error.message}",
            error.next_step
            or "run pulumi up again; `nearfar keys list --stack NAME` asks the same.",
        ) from error
