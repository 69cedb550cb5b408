"""The options that say which edge a command talks to, and with which key and model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from nearfar import checkout, deployed, exchange, state
from nearfar.deployed import Deployed
from nearfar.errors import BadInput, Missing
from nearfar.exchange import Edge

F = TypeVar("F", bound=Callable[..., Any])
_STACK = "nearfar.stack"


@dataclass(frozen=True, slots=True)
class Target:
    """An edge and a model of it."""

    edge: Edge = field(repr=False)
    model: str = ""


def options(command: F) -> F:
    """Add --stack, --endpoint, --api-key and --model to a command."""
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
        stack_option,
    ):
        command = option(command)
    return command


def _keep(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
    ctx.meta[_STACK] = value


def stack_option(command: F) -> F:
    """Add --stack; the command itself does not see it, `stack` and `find` do."""
    added = click.option(
        "--stack",
        envvar="NEARFAR_STACK",
        expose_value=False,
        callback=_keep,
        help="Deployed stack whose edge to use, or NEARFAR_STACK; '.' is the selected one.",
    )
    return added(command)


def stack() -> Deployed | None:
    """The deployed stack that the running command was told to use.

    Raises:
        Missing: there is no such stack.
    """
    name = click.get_current_context().meta.get(_STACK)
    return deployed.read(checkout.here(), name) if name else None


def find(endpoint: str | None, api_key: str | None, model: str | None) -> Target:
    """Return the edge that was named, that of a deployed stack, or the local stack.

    Raises:
        BadInput: an endpoint was named without a key, or beside a stack.
        Missing: no endpoint was named and no local stack runs; or the edge offers no model.
    """
    there = stack()
    if there is not None and endpoint is not None:
        raise BadInput("--stack and --endpoint both name an edge.", "leave one of them out.")
    if there is not None:
        endpoint, api_key = there.endpoint, api_key or there.api_key
        model = model or there.model
    elif endpoint is None:
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
