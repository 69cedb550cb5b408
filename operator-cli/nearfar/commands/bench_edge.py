"""nearfar bench-edge: measure the edge beside what it could be replaced with."""

from __future__ import annotations

import os
import sys

import click

from nearfar import checkout


@click.command(
    "bench-edge", add_help_option=False, context_settings={"ignore_unknown_options": True}
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> None:
    """Become the bench of tests/bench, whose --help names its arguments."""
    os.chdir(checkout.here().root)
    os.execv(sys.executable, [sys.executable, "-m", "tests.bench.edge", *words])  # noqa: S606 - ctrl-C has to reach it
