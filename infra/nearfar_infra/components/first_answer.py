"""The last step: one question through the public address."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import Output, ResourceOptions

from nearfar_infra.components.own import Asked


@dataclass(frozen=True, slots=True)
class FirstAnswerArgs:
    """`operator_secret` registers the key at the edge, so that it is listed there.

    The question is asked again when one of the words changes that it `follows`.
    """

    url: pulumi.Input[str]
    api_key: pulumi.Input[str]
    model: str
    operator_secret: pulumi.Input[str] = ""
    follows: pulumi.Input[list[str]] = ()  # type: ignore[assignment]


class FirstAnswer(pulumi.ComponentResource):
    """`answer` is what the model said; the `up` fails with the stage that did not answer."""

    answer: Output[str]

    def __init__(
        self, name: str, args: FirstAnswerArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:FirstAnswer", name, {}, opts)
        inputs = {
            "url": args.url,
            "apiKey": Output.secret(args.api_key),
            "operatorSecret": Output.secret(args.operator_secret),
            "model": args.model,
            "follows": Output.from_input(args.follows).apply(list),
        }
        self.answer = Asked("first-answer", inputs, ResourceOptions(parent=self)).answer
        self.register_outputs({})
