"""Replacing the operator's secret: the local stack's in place, an edge's by its variables."""

from __future__ import annotations

from nearfar import checkout, console, credentials


def rotate_local(*, as_json: bool) -> None:
    """Replace the local stack's; it takes the new one when it starts again."""
    path = checkout.here().make_run() / credentials.FILE
    credentials.save(path, credentials.rotated(credentials.ensure(path)))
    if as_json:
        console.result_json({"rotated": str(path), "restart_needed": True})
        return
    console.result(f"{path} holds a new secret; the old one stays valid as the previous one.")
    console.result("Next step: restart the stack (./nearfar down, ./nearfar up).")


def print_rotated(current: str, *, as_json: bool) -> None:
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
