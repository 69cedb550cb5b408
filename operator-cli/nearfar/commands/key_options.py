"""The options of `nearfar keys`: which edge and secret, which limits, which gate is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from edge_frontend.limits import MOST, PRIORITIES
from nearfar import checkout, credentials, gate, state
from nearfar.admin import Admin
from nearfar.commands import target
from nearfar.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])
_LIMITS = {
    "rpm": "requests a minute",
    "tpm": "generated tokens a minute",
    "parallel": "requests at once",
    "monthly-tokens": "generated tokens a month (UTC)",
}
_CLAIMS = {"rpm": "rpm", "tpm": "tpm", "parallel": "par", "monthly_tokens": "month"}


def reach(function: F) -> F:
    """Add the options that say which edge, and by which secret."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one line of JSON."),
        click.option(
            "--secret-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with the operator's secret. Default: NEARFAR_KEY_SECRET, or the local one.",
        ),
        click.option(
            "--endpoint", envvar="NEARFAR_ENDPOINT", help="Edge to tell. Default: the local stack."
        ),
        target.stack_option,
    ):
        function = option(function)
    return function


def limited(function: F) -> F:
    """Add the options that say what a key may use."""
    for name, what in reversed(_LIMITS.items()):
        text = f"Most {what}. Default: no limit."
        function = click.option(f"--{name}", type=click.IntRange(0, MOST), help=text)(function)
    text = "Who is turned away last when the model server is full. Default: normal."
    return click.option("--priority", type=click.Choice(list(PRIORITIES)), help=text)(function)


def gated(function: F) -> F:
    """Add the option that says where the gate's own list of revoked keys is."""
    text = "The gate's Redis, which is told too. Default: the local stack's."
    return click.option("--gate-redis", envvar="NEARFAR_GATE_REDIS", help=text)(function)


def admin(endpoint: str | None, secret_file: Path | None) -> Admin:
    """The admin way of the edge or the deployed stack that was named, or of the local stack."""
    there = target.stack() if endpoint is None else None
    if there is not None:
        return Admin(there.endpoint, there.key_secret or secret(secret_file))
    if endpoint is None:
        endpoint = state.require(checkout.here()).endpoint
        secret_file = secret_file or checkout.here().run / credentials.FILE
    return Admin(endpoint, secret(secret_file))


def secret(path: Path | None) -> str:
    """The operator's secret, from a file, the environment, or the local stack."""
    found = credentials.operator_secret(path)
    if found is None:
        raise BadInput(
            "The operator's secret is not known.", "pass --secret-file, or set NEARFAR_KEY_SECRET."
        )
    return found


def given(limits: Mapping[str, int | None]) -> dict[str, int]:
    """The limits that were given, as a key names them."""
    return {_CLAIMS[name]: limit for name, limit in limits.items() if limit is not None}


def tell_gate(redis_url: str | None, endpoint: str | None, revoked: Mapping[str, float]) -> None:
    """Let the gate know too, where one is named or the local stack has one."""
    if redis_url is None and endpoint is None and target.stack() is None:
        redis_url = state.require(checkout.here()).gate_redis
    if redis_url:
        gate.tell_revoked(redis_url, revoked)
