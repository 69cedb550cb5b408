"""A key as `nearfar keys` shows it: new, as a line of the list, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge_frontend.limits import NORMAL, PRIORITIES
from nearfar import console
from nearfar.admin import Entry, moment
from nearfar.keyring import NewKey

_NAMES = {number: name for name, number in PRIORITIES.items()}


def show_new(made: NewKey, *, as_json: bool) -> None:
    """Show a key the one time that it is shown."""
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


def show_all(entries: Sequence[Entry], now_s: float) -> None:
    """Print the list, a line for each key."""
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


def _allowed(entry: Entry) -> str:
    """Limits and priority in a few words; a dash where there is nothing to say."""
    said = [f"{name}={limit}" for name, limit in entry.limits.given().items()]
    if entry.priority != NORMAL:
        said.append(_NAMES[entry.priority])
    return ",".join(said) or "-"


def document(entry: Entry, now_s: float) -> dict[str, Any]:
    """A key of the list as JSON."""
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
