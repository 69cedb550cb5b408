"""nearfar keys: create, list, revoke and rotate API keys."""

from __future__ import annotations

import time
from pathlib import Path

import click

from edge_frontend.keys import PERMISSIONS
from edge_frontend.limits import PRIORITIES, Limits
from nearfar import console, key_list, keyring
from nearfar.commands import key_options as options
from nearfar.commands import key_secret, target
from nearfar.duration import Duration
from nearfar.errors import BadInput

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
@options.limited
@options.reach
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
        options.admin(endpoint, secret_file),
        tenant=tenant,
        expires_s=expires,
        models=models,
        permissions=permissions,
        limits=Limits.of(options.given(limits)),
        priority=PRIORITIES[priority or "normal"],
        label=label,
    )
    key_list.show_new(made, as_json=as_json)


@command.command("list")
@options.reach
def list_(endpoint: str | None, secret_file: Path | None, as_json: bool) -> None:
    """List the keys that the edge was told of; the keys themselves are nowhere.

    \b
    Example:
      nearfar keys list --json
    """
    entries, now_s = options.admin(endpoint, secret_file).entries(), time.time()
    if as_json:
        console.result_json({"keys": [key_list.document(entry, now_s) for entry in entries]})
        return
    key_list.show_all(entries, now_s)


@command.command("revoke")
@click.argument("key_id")
@options.gated
@options.reach
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
    revoked = keyring.revoke(options.admin(endpoint, secret_file), key_id)
    options.tell_gate(gate_redis, endpoint, revoked)
    if as_json:
        console.result_json({"revoked": key_id})
    else:
        console.result(f"revoked {key_id}; every edge knows within 60 seconds")


@command.command("rotate")
@click.argument("key_id", required=False)
@click.option("--grace", type=Duration(), default="24h", show_default=True)
@click.option("--secret", "of_secret", is_flag=True, help="Rotate the operator's secret instead.")
@options.limited
@options.gated
@options.reach
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
            options.admin(endpoint, secret_file), key_id, grace, options.given(limits), level
        )
        key_list.show_new(made, as_json=as_json)
        options.tell_gate(gate_redis, endpoint, revoked)
    elif endpoint is None and secret_file is None:
        key_secret.rotate_local(as_json=as_json)
    else:
        key_secret.print_rotated(options.secret(secret_file), as_json=as_json)
