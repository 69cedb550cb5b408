"""The last step: one question through the public address."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True)
class FirstAnswerArgs:
    url: pulumi.Input[str]
    api_key: pulumi.Input[str]
    model: str


class FirstAnswer(pulumi.ComponentResource):
    """`answer` is what the model said; the `up` fails with the stage that did not answer."""

    answer: pulumi.Output[str]
