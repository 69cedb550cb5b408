"""nearfar down: stop the local stack."""

from __future__ import annotations

import click

from nearfar import checkout, console, state

HELP = """Stop the local stack and wait until all its parts are gone.

Done (exit code 0) as well where none was running.

\b
Examples:
  nearfar down
  nearfar down --json
"""


@click.command("down", help=HELP)
@click.option("--json", "as_json", is_flag=True, help='Print {"stopped": true or false}.')
def command(as_json: bool) -> None:
    stopped = state.stop(checkout.here())
    if as_json:
        console.result_json({"stopped": stopped})
    else:
        console.result("stopped" if stopped else "no local stack was running")
