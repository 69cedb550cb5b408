"""nearfar build: the edge component alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from nearfar import build, checkout, console
from nearfar.edge import HOSTS, Host
from nearfar.errors import BadInput

HELP = """Build the edge component for a host if its source changed, and print where it lies.

\b
Examples:
  nearfar build
  nearfar build --host spin --json
"""


@click.command("build", help=HELP)
@click.option("--host", type=click.Choice(HOSTS), default="wasmtime", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Copy the component here.")
@click.option("--json", "as_json", is_flag=True, help='Print {"host": ..., "component": ...}.')
def command(host: Host, output: Path | None, as_json: bool) -> None:
    path = build.component(checkout.here(), host, console.say)
    if output is not None:
        path = _copy(path, output)
    if as_json:
        console.result_json({"host": host, "component": str(path)})
    else:
        console.result(str(path))


def _copy(path: Path, output: Path) -> Path:
    try:
        return Path(shutil.copyfile(path, output))
    except OSError as error:
        raise BadInput(
            f"{output} cannot be written ({error.strerror}).", "name another file."
        ) from error
