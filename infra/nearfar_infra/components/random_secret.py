"""A random secret as a resource of the project's own plugin."""

from __future__ import annotations

import pulumi


class RandomSecret(pulumi.CustomResource):
    """`value` is made once, marked secret, and made anew when the generation changes."""

    value: pulumi.Output[str]

    def __init__(
        self, name: str, generation: int, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        marked = pulumi.ResourceOptions(additional_secret_outputs=["value"])
        super().__init__(
            "nearfar:index:RandomSecret",
            name,
            {"generation": generation, "value": None},
            pulumi.ResourceOptions.merge(opts, marked),
        )
