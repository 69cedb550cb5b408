"""nearfar test: the whole test suite."""

from __future__ import annotations

from dataclasses import asdict

import click

from nearfar import checkout, console, suite
from nearfar.errors import NearfarError

HELP = """Run format check, lint, strict types and all tests, and stop at the first that fails.

What follows -- goes to pytest. The launcher gives this command an environment of its own.

\b
Examples:
  nearfar test
  nearfar test --only tests -- -k keys -x
  nearfar test --json
"""


@click.command("test", help=HELP)
@click.option(
    "--only",
    "steps",
    multiple=True,
    type=click.Choice(tuple(suite.STEPS)),
    help="Run this step; repeat for several. Default: all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON at the end.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def command(steps: tuple[str, ...], as_json: bool, pytest_args: tuple[str, ...]) -> int:
    outcomes = suite.run(
        checkout.here(), steps or tuple(suite.STEPS), pytest_args, console.say, quiet=as_json
    )
    failed = [outcome for outcome in outcomes if outcome.exit_code != 0]
    if as_json:
        console.result_json(
            {"passed": not failed, "steps": [asdict(outcome) for outcome in outcomes]}
        )
        return 1 if failed else 0
    if failed:
        raise NearfarError(
            f"The step '{failed[0].step}' failed.", "its output stands above; mend what it names."
        )
    return 0
