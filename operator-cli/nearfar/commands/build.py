"""nearfar build: the edge component alone."""

from __future__ import annotations

import click

from nearfar import build, checkout, console
from nearfar.edge import HOSTS, Host

HELP = """Build the edge component for a host if its source changed, and print where it lies.

\b
Examples:
  nearfar build
  nearfar build --host spin --json
"""


@click.command("build", help=HELP)
@click.option("--host", type=click.Choice(HOSTS), default="wasmtime", show_default=True)
@click.option("--json", "as_json", is_flag=True, help='Print {"host": ..., "component": ...}.')
def command(host: Host, as_json: bool) -> None:
    path = build.component(checkout.here(), host, console.say)
    if as_json:
        console.result_json({"host": host, "component": str(path)})
    else:
        console.result(str(path))
