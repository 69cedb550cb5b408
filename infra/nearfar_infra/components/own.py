"""The edge's resources of this project's own plugin, as the program declares them.

Pulumi marks an output as secret when the input of the same name was; `additional_secret_outputs`
marks those that no input has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import ResourceOptions


class AkamaiApp(pulumi.CustomResource):
    """An app on Akamai Functions; `url` is where it answers, `component` what it was made from."""

    url: pulumi.Output[str]
    component: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        app: str,
        account: str,
        labels: list[str],
        variables: pulumi.Output[dict[str, str]],
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"name": app, "account": account, "labels": labels, "variables": variables}
        super().__init__(
            "nearfar:index:AkamaiApp", name, {**inputs, "url": None, "component": None}, opts
        )


class ApiKey(pulumi.CustomResource):
    """The first tenant's API key."""

    key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        secret: pulumi.Input[str],
        tenant: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"operatorSecret": pulumi.Output.secret(secret), "tenant": tenant, "key": None}
        marked = ResourceOptions(additional_secret_outputs=["key"])
        super().__init__("nearfar:index:ApiKey", name, inputs, ResourceOptions.merge(opts, marked))


class EdgeImage(pulumi.CustomResource):
    """The edge as a container image in a registry; `reference` is its name by digest."""

    reference: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        repository: str,
        base: str,
        user: str,
        password: str,
        plain: bool,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "repository": repository,
            "base": base,
            "user": user,
            "password": pulumi.Output.secret(password),
            "plain": plain,
            "reference": None,
        }
        super().__init__("nearfar:index:EdgeImage", name, inputs, opts)


class SpinArtifact(pulumi.CustomResource):
    """The component in a registry as Spin's own kind of artifact, named by its source's hash."""

    reference: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        repository: str,
        user: str,
        password: str,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "repository": repository,
            "user": user,
            "password": pulumi.Output.secret(password),
            "reference": None,
        }
        super().__init__("nearfar:index:SpinArtifact", name, inputs, opts)


class Asked(pulumi.CustomResource):
    """One question to the deployed edge; `answer` is what came back."""

    answer: pulumi.Output[str]

    def __init__(
        self, name: str, inputs: Mapping[str, Any], opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:index:FirstAnswer", name, {**inputs, "answer": None}, opts)
