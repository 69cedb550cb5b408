"""nearfar cost: what a deployment costs an hour and a month, before anything is created."""

from __future__ import annotations

from typing import Any

import click

from nearfar import checkout, console, deployment
from nearfar_infra import bill
from nearfar_infra.bill import Part

HELP = """Print the hourly and monthly cost of a deployment by part, in US dollars without tax.

Prices are those of infra/nearfar_infra/prices.toml, each with its day and source. Where a pool may
grow, both ends are told. Nothing is asked and nothing is created.

\b
Examples:
  nearfar cost
  nearfar cost --stack dev
  nearfar cost --set gpuPlan=g2-gpu-rtx4000a1-l --set highAvailability=true --json
"""


@click.command("cost", help=HELP)
@click.option("--stack", help="Stack whose configuration counts. Default: the settings' defaults.")
@click.option("--set", "words", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(stack: str | None, words: tuple[str, ...], as_json: bool) -> None:
    parts = bill.parts(deployment.settings(checkout.here(), stack, words))
    if as_json:
        console.result_json(_document(parts))
        return
    console.result(f"{'PART':<34} {'PIECES':>8} {'USD/HOUR':>17} {'USD/MONTH':>19}  PRICE OF")
    for part in parts:
        pieces = _range(str(part.least), str(part.most))
        console.result(
            f"{part.name:<34} {pieces:>8} {_hourly(part):>17} {_monthly(part):>19}  "
            f"{part.price.as_of}{' (hour derived)' if part.price.derived else ''}"
        )
    least, most = _sums(parts)
    hours = _range(f"{least[0]:.3f}", f"{most[0]:.3f}")
    months = _range(f"{least[1]:.2f}", f"{most[1]:.2f}")
    console.result(f"{'together':<34} {'':>8} {hours:>17} {months:>19}")
    for left_out in bill.NOT_COUNTED:
        console.result(f"not counted: {left_out}")
    console.say("every price has its source in infra/nearfar_infra/prices.toml; Linode's own holds")


def _hourly(part: Part) -> str:
    return _range(f"{part.hourly():.3f}", f"{part.hourly(most=True):.3f}")


def _monthly(part: Part) -> str:
    return _range(f"{part.monthly():.2f}", f"{part.monthly(most=True):.2f}")


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _sums(parts: tuple[Part, ...]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Hour and month, at the least and at the most."""
    return (
        (sum(part.hourly() for part in parts), sum(part.monthly() for part in parts)),
        (
            sum(part.hourly(most=True) for part in parts),
            sum(part.monthly(most=True) for part in parts),
        ),
    )


def _document(parts: tuple[Part, ...]) -> dict[str, Any]:
    least, most = _sums(parts)
    return {
        "currency": "USD",
        "parts": [
            {
                "name": part.name,
                "pieces": [part.least, part.most],
                "hourly": [round(part.hourly(), 4), round(part.hourly(most=True), 4)],
                "monthly": [round(part.monthly(), 2), round(part.monthly(most=True), 2)],
                "as_of": part.price.as_of,
                "source": part.price.source,
                "hourly_derived": part.price.derived,
            }
            for part in parts
        ],
        "hourly": [round(least[0], 4), round(most[0], 4)],
        "monthly": [round(least[1], 2), round(most[1], 2)],
        "not_counted": list(bill.NOT_COUNTED),
    }
