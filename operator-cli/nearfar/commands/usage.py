"""nearfar usage: what each tenant and key used in a month."""

from __future__ import annotations

import re
import time
from dataclasses import asdict

import click

from gpu_backend.gate.usage import COUNTS, Usage, month_of
from nearfar import checkout, console, gate, state
from nearfar.errors import BadInput, Missing

HELP = """Show what each tenant and key used in a month, as the gates counted it.

Generated tokens are the engine's own count of answers that ended; estimated ones are of answers
that were broken off. Hits were answered by the edges' caches, with the cached tokens. What was
not settled yet is missing, and hits are told with a key's next miss.

\b
Examples:
  nearfar usage
  nearfar usage --month 2026-11 --json
"""
_SHOWN = ("requests", "aborted", "failed", "generated", "estimated", "input", "hits", "cached")
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


@click.command("usage", help=HELP)
@click.option("--month", help="Like 2026-11, in UTC. Default: this month.")
@click.option(
    "--redis",
    "redis_url",
    envvar="NEARFAR_GATE_REDIS",
    help="The gate's Redis. Default: the local stack's.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(month: str | None, redis_url: str | None, as_json: bool) -> None:
    month = month or month_of(time.time())
    if not _MONTH.fullmatch(month):
        raise BadInput(f"--month {month!r} is not a month.", "give one like 2026-11")
    rows = gate.used(redis_url or _local(), month)
    if as_json:
        console.result_json({"month": month, "usage": [asdict(row) for row in rows]})
    else:
        _show(month, rows)


def _local() -> str:
    found = state.require(checkout.here()).gate_redis
    if not found:
        raise Missing(
            "The local stack runs without a gate, so nothing is counted.",
            "start it with --gate, or name another gate's Redis with --redis.",
        )
    return found


def _show(month: str, rows: tuple[Usage, ...]) -> None:
    names = " ".join(f"{name.upper():>10}" for name in _SHOWN)
    console.result(f"{'TENANT':<16} {'KEY ID':<16} {names}")
    for row in rows:
        console.result(_line(row.tenant, row.key, [getattr(row, name) for name in _SHOWN]))
    if not rows:
        console.say(f"nothing was used in {month}")
    elif len(rows) > 1:
        totals = [sum(getattr(row, name) for row in rows) for name in _SHOWN]
        console.result(_line("all", "", totals))


def _line(tenant: str, key: str, counts: list[int]) -> str:
    return f"{tenant:<16} {key:<16} " + " ".join(f"{count:>10}" for count in counts)


assert set(_SHOWN) <= set(COUNTS)  # noqa: S101 - a name that the gate does not count shows at once
