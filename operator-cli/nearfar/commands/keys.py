"""nearfar keys: create, list, revoke and rotate API keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from edge_frontend.keys import PERMISSIONS
from edge_frontend.limits import NORMAL, PRIORITIES, Limits
from nearfar import checkout, console, credentials, gate, keyring, state
from nearfar.admin import Admin, Entry, moment
from nearfar.commands import target
from nearfar.duration import Duration
from nearfar.errors import BadInput
from nearfar.keyring import NewKey

F = TypeVar("F", bound=Callable[..., Any])
_LIMITS = {
    "rpm": "requests a minute",
    "tpm": "generated tokens a minute",
    "parallel": "requests at once",
    "monthly-tokens": "generated tokens a month (UTC)",
}
_NAMES = {number: name for name, number in PRIORITIES.items()}
_CLAIMS = {"rpm": "rpm", "tpm": "tpm", "parallel": "par", "monthly_tokens": "month"}

HELP = """Create, list, revoke and rotate API keys, of the local stack or of a deployed edge.

A key verifies itself by the operator's secret, so the secret that makes it must be the edge's.
For the local stack it is found, and for a deployed one with --stack; for another edge give
--endpoint, and --secret-file or NEARFAR_KEY_SECRET.

\b
Examples:
  nearfar keys create --tenant acme --expires 90d
  nearfar keys list
  nearfar keys revoke 1f2e3d4c5b6a
  nearfar keys rotate 1f2e3d4c5b6a --grace 24h
  nearfar keys rotate --secret
"""


@click.group("keys", help=HELP)
def command() -> None: ...


def _reach(function: F) -> F:
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


def _limited(function: F) -> F:
    """Add the options that say what a key may use."""
    for name, what in reversed(_LIMITS.items()):
        text = f"Most {what}. Default: no limit."
        function = click.option(f"--{name}", type=click.IntRange(0), help=text)(function)
    text = "Who is turned away last when the model server is full. Default: normal."
    return click.option("--priority", type=click.Choice(list(PRIORITIES)), help=text)(function)


def _gated(function: F) -> F:
    """Add the option that says where the gate's own list of revoked keys is."""
    text = "The gate's Redis, which is told too. Default: the local stack's."
    return click.option("--gate-redis", envvar="NEARFAR_GATE_REDIS", help=text)(function)


@command.command("create")
@click.option("--tenant", required=True, help="Who the key is for.")
@click.option("--expires", type=Duration(), default="90d", show_default=True)
@click.option("--model", "models", multiple=True, help="Allowed model; repeat. Default: all.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    type=click.Choice(PERMISSIONS),
    help="Repeat for several. Default: chat.",
)
@click.option("--label", default="", help="A note for the list.")
@_limited
@_reach
def create(
    tenant: str,
    expires: int,
    models: tuple[str, ...],
    permissions: tuple[str, ...],
    label: str,
    priority: str | None,
    endpoint: str | None,
    secret_file: Path | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Make a key and show it once.

    \b
    Examples:
      nearfar keys create --tenant acme --model my-model --permission chat --permission trace
      nearfar keys create --tenant acme --rpm 60 --tpm 20000 --parallel 4 --priority interactive
    """
    made = keyring.create(
        _admin(endpoint, secret_file),
        tenant=tenant,
        expires_s=expires,
        models=models,
        permissions=permissions,
        limits=Limits.of(_given(limits)),
        priority=PRIORITIES[priority or "normal"],
        label=label,
    )
    _show_new(made, as_json=as_json)


@command.command("list")
@_reach
def list_(endpoint: str | None, secret_file: Path | None, as_json: bool) -> None:
    """List the keys that the edge was told of; the keys themselves are nowhere.

    \b
    Example:
      nearfar keys list --json
    """
    entries, now_s = _admin(endpoint, secret_file).entries(), time.time()
    if as_json:
        console.result_json({"keys": [_document(entry, now_s) for entry in entries]})
        return
    console.result(
        f"{'KEY ID':<16} {'TENANT':<16} {'STATUS':<22} {'EXPIRES (UTC)':<17} "
        f"{'PERMISSIONS':<12} LIMITS"
    )
    for entry in entries:
        expires = moment(entry.expires_at) if entry.expires_at is not None else ""
        console.result(
            f"{entry.key_id:<16} {entry.tenant:<16} {entry.status(now_s):<22} {expires:<17} "
            f"{','.join(entry.permissions):<12} {_allowed(entry)} {entry.label}".rstrip()
        )


@command.command("revoke")
@click.argument("key_id")
@_gated
@_reach
def revoke(
    key_id: str,
    gate_redis: str | None,
    endpoint: str | None,
    secret_file: Path | None,
    as_json: bool,
) -> None:
    """End a key, or all tokens of a subject; every edge knows within 60 seconds.

    A gate reads a list of its own, so give the address of its Redis where it is not the local
    stack's.

    \b
    Examples:
      nearfar keys revoke 1f2e3d4c5b6a
      nearfar keys revoke login~0123456789abcdef --gate-redis redis://10.0.0.7:6379/1
    """
    revoked = keyring.revoke(_admin(endpoint, secret_file), key_id)
    _tell_gate(gate_redis, endpoint, revoked)
    if as_json:
        console.result_json({"revoked": key_id})
    else:
        console.result(f"revoked {key_id}; every edge knows within 60 seconds")


@command.command("rotate")
@click.argument("key_id", required=False)
@click.option("--grace", type=Duration(), default="24h", show_default=True)
@click.option("--secret", "of_secret", is_flag=True, help="Rotate the operator's secret instead.")
@_limited
@_gated
@_reach
def rotate(
    key_id: str | None,
    grace: int,
    of_secret: bool,
    priority: str | None,
    gate_redis: str | None,
    endpoint: str | None,
    secret_file: Path | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Replace a key by one with the same claims; the old one ends after --grace.

    Limits and a priority that are given are the new key's; the others stay.

    With --secret, replace the operator's secret; keys made with the old one stay valid until the
    next time.

    \b
    Examples:
      nearfar keys rotate 1f2e3d4c5b6a --grace 1h
      nearfar keys rotate --secret
    """
    if of_secret == (key_id is not None):
        raise BadInput("Name either a KEY_ID or --secret.", "nearfar keys rotate --help")
    if of_secret and target.stack() is not None:
        raise BadInput(
            "The operator's secret of a deployed stack is Pulumi's to rotate.",
            "raise keyGeneration in its configuration, and deploy again.",
        )
    if key_id is not None:
        level = None if priority is None else PRIORITIES[priority]
        made, revoked = keyring.rotate(
            _admin(endpoint, secret_file), key_id, grace, _given(limits), level
        )
        _show_new(made, as_json=as_json)
        _tell_gate(gate_redis, endpoint, revoked)
    elif endpoint is None and secret_file is None:
        _rotate_local(as_json=as_json)
    else:
        _print_rotated(_secret(secret_file), as_json=as_json)


def _rotate_local(*, as_json: bool) -> None:
    path = checkout.here().make_run() / credentials.FILE
    credentials.save(path, credentials.rotated(credentials.ensure(path)))
    if as_json:
        console.result_json({"rotated": str(path), "restart_needed": True})
        return
    console.result(f"{path} holds a new secret; the old one stays valid as the previous one.")
    console.result("Next step: restart the stack (./nearfar down, ./nearfar up).")


def _print_rotated(current: str, *, as_json: bool) -> None:
    """Print what to set at a deployed edge: we cannot change its variables from here."""
    rotated = credentials.rotated(credentials.Credentials(current))
    variables = {
        "NEARFAR_KEY_SECRET": rotated.key_secret,
        "NEARFAR_KEY_SECRET_PREVIOUS": rotated.key_secret_previous,
    }
    if as_json:
        console.result_json(variables)
        return
    console.say("set both variables at every edge, and keep the first for the next command:")
    for name, value in variables.items():
        console.result(f"{name}={value}")


def _admin(endpoint: str | None, secret_file: Path | None) -> Admin:
    there = target.stack() if endpoint is None else None
    if there is not None:
        return Admin(there.endpoint, there.key_secret or _secret(secret_file))
    if endpoint is None:
        endpoint = state.require(checkout.here()).endpoint
        secret_file = secret_file or checkout.here().run / credentials.FILE
    return Admin(endpoint, _secret(secret_file))


def _given(limits: Mapping[str, int | None]) -> dict[str, int]:
    """The limits that were given, as a key names them."""
    return {_CLAIMS[name]: limit for name, limit in limits.items() if limit is not None}


def _tell_gate(redis_url: str | None, endpoint: str | None, revoked: Mapping[str, float]) -> None:
    """Let the gate know too, where one is named or the local stack has one."""
    if redis_url is None and endpoint is None and target.stack() is None:
        redis_url = state.require(checkout.here()).gate_redis
    if redis_url:
        gate.tell_revoked(redis_url, revoked)


def _secret(path: Path | None) -> str:
    found = credentials.operator_secret(path)
    if found is None:
        raise BadInput(
            "The operator's secret is not known.", "pass --secret-file, or set NEARFAR_KEY_SECRET."
        )
    return found


def _show_new(made: NewKey, *, as_json: bool) -> None:
    claims = made.claims
    if as_json:
        console.result_json(
            {
                "api_key": made.key,
                "key_id": claims.key_id,
                "tenant": claims.tenant,
                "expires_at": claims.expires_at,
                "models": list(claims.models),
                "permissions": list(claims.permissions),
                "limits": claims.limits.given(),
                "priority": _NAMES[claims.priority],
            }
        )
        return
    console.say(f"key {claims.key_id} for {claims.tenant}, until {moment(claims.expires_at)} UTC")
    console.say("it is shown this once and stored nowhere:")
    console.result(made.key)


def _allowed(entry: Entry) -> str:
    """Limits and priority in a few words; a dash where there is nothing to say."""
    said = [f"{name}={limit}" for name, limit in entry.limits.given().items()]
    if entry.priority != NORMAL:
        said.append(_NAMES[entry.priority])
    return ",".join(said) or "-"


def _document(entry: Entry, now_s: float) -> dict[str, Any]:
    return {
        "key_id": entry.key_id,
        "tenant": entry.tenant,
        "status": entry.status(now_s),
        "expires_at": entry.expires_at,
        "revoked_at": entry.revoked_at,
        "created_at": entry.created_at,
        "models": list(entry.models),
        "permissions": list(entry.permissions),
        "limits": entry.limits.given(),
        "priority": _NAMES[entry.priority],
        "label": entry.label,
    }
