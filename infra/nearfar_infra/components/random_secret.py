"""A random secret as a resource of the project's own plugin."""

from __future__ import annotations

import pulumi


class RandomSecret(pulumi.CustomResource):
    """`value` is made anew when the generation changes; `previous` is the one before it.

    Both are marked secret; `previous` is empty at first.
    """

    value: pulumi.Output[str]
    previous: pulumi.Output[str]

    def __init__(
        self, name: str, generation: int, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        marked = pulumi.ResourceOptions(additional_secret_outputs=["value", "previous"])
        super().__init__(
            "nearfar:index:RandomSecret",
            name,
            {"generation": generation, "value": None, "previous": None},
            pulumi.ResourceOptions.merge(opts, marked),
        )
