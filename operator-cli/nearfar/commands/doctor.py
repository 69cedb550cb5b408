"""nearfar doctor: what this machine has and lacks."""

from __future__ import annotations

from dataclasses import asdict

import click

from nearfar import checkout, console, machine
from nearfar.errors import Missing

HELP = """Check programs, memory, disk and the port that `nearfar up` needs.

Exit code 3 where something that is needed is missing.

\b
Examples:
  nearfar doctor
  nearfar doctor --network
  nearfar doctor --json
"""


@click.command("doctor", help=HELP)
@click.option("--port", type=click.IntRange(1, 65535), default=machine.DEFAULT_PORT)
@click.option("--network", is_flag=True, help="Ask the package registry too.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(port: int, network: bool, as_json: bool) -> int:
    findings = list(machine.look(checkout.here(), port=port, network=network))
    ready = all(finding.verdict != "missing" for finding in findings)
    if as_json:
        console.result_json({"ready": ready, "findings": [asdict(item) for item in findings]})
        return 0 if ready else Missing.exit_code
    for finding in findings:
        console.result(f"{finding.verdict:<9} {finding.name:<13} {finding.found}")
        if finding.next_step:
            console.result(f"{'':<23} next step: {finding.next_step}")
    return 0 if ready else Missing.exit_code
