"""nearfar status: whether the local stack runs, and where."""

from __future__ import annotations

from dataclasses import asdict

import click

from nearfar import checkout, console, state
from nearfar.errors import Missing

HELP = """Show the endpoint, model and processes of the local stack.

Exit code 3 where none is running or it is still starting. The API key is shown by --json only.

\b
Examples:
  nearfar status
  nearfar status --json
"""


@click.command("status", help=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(as_json: bool) -> int:
    here = checkout.here()
    found = state.read(here)
    if found is None:
        starting = state.is_running(here)
        if as_json:
            console.result_json({"running": False, "starting": starting})
            return Missing.exit_code
        if starting:
            raise Missing("The local stack is starting.", "wait, and ask again.")
        raise Missing("No local stack is running.", "./nearfar up")
    if as_json:
        told = asdict(found)
        told["gate"] = bool(told.pop("gate_redis"))  # its address has a password in it
        console.result_json({"running": True, "starting": False, **told})
        return 0
    console.result(f"endpoint  {found.endpoint}")
    console.result(f"model     {found.model}")
    console.result(f"host      {found.host}")
    console.result(f"since     {found.started_at}")
    console.result(f"gate      {'yes: nearfar usage' if found.gate_redis else 'none'}")
    for name, pid in found.parts.items():
        gone = "" if state.is_alive(pid) else ", gone"
        console.result(f"part      {name} (process {pid}{gone})")
    return 0
