"""The options that say which edge a command talks to, and with which key and model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from nearfar import checkout, exchange, state
from nearfar.errors import BadInput, Missing
from nearfar.exchange import Edge

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """An edge and a model of it."""

    edge: Edge = field(repr=False)
    model: str = ""


def options(command: F) -> F:
    """Add --endpoint, --api-key and --model to a command."""
    for option in (
        click.option(
            "--model", help="Model to ask. Default: the stack's, or the first one offered."
        ),
        click.option("--api-key", envvar="NEARFAR_API_KEY", help="API key, or NEARFAR_API_KEY."),
        click.option(
            "--endpoint",
            envvar="NEARFAR_ENDPOINT",
            help="Edge to ask, or NEARFAR_ENDPOINT. Default: the local stack.",
        ),
    ):
        command = option(command)
    return command


def find(endpoint: str | None, api_key: str | None, model: str | None) -> Target:
    """Return the edge that was named, or the local stack.

    Raises:
        BadInput: an endpoint was named without a key.
        Missing: no endpoint was named and no local stack runs; or the edge offers no model.
    """
    if endpoint is None:
        local = state.require(checkout.here())
        return Target(Edge(local.endpoint, api_key or local.api_key), model or local.model)
    if not api_key:
        raise BadInput("--endpoint needs an API key.", "pass --api-key, or set NEARFAR_API_KEY.")
    edge = Edge(endpoint, api_key)
    if model:
        return Target(edge, model)
    offered = exchange.models(edge)
    if not offered:
        raise Missing(f"{endpoint} offers no model.", "look at the edge's NEARFAR_ROUTES.")
    return Target(edge, offered[0])
