"""nearfar doctor: what this machine has and lacks, and whether a deployment can work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict

import click

from nearfar import checkout, console, deploy_check, deployment, linode, machine
from nearfar.errors import Missing
from nearfar.linode import Linode
from nearfar.machine import Finding

HELP = """Check programs, memory, disk and the port that `nearfar up` needs.

With --deploy, check what a deployment needs, before anything is created: the token's scopes, the
region, whether the plans are to be had there, programs and their versions, digests.

Exit code 3 where something that is needed is missing.

\b
Examples:
  nearfar doctor
  nearfar doctor --network
  nearfar doctor --deploy --stack dev
  nearfar doctor --json
"""


@click.command("doctor", help=HELP)
@click.option("--port", type=click.IntRange(1, 65535), default=machine.DEFAULT_PORT)
@click.option("--network", is_flag=True, help="Ask the package registry too.")
@click.option("--deploy", "of_deployment", is_flag=True, help="Check a deployment instead.")
@click.option("--stack", help="Stack whose settings are checked. Default: the settings' defaults.")
@click.option("--set", "words", multiple=True, metavar="KEY=VALUE", help="Change a setting.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(
    port: int,
    network: bool,
    of_deployment: bool,
    stack: str | None,
    words: tuple[str, ...],
    as_json: bool,
) -> int:
    here = checkout.here()
    if of_deployment:
        return _show(_deployment(stack, words), as_json=as_json)
    return _show(machine.look(here, port=port, network=network), as_json=as_json)


def _deployment(stack: str | None, words: tuple[str, ...]) -> Iterable[Finding]:
    here = checkout.here()
    settings = deployment.settings(here, stack, words)
    api = Linode(settings.linode_api, os.environ.get(linode.TOKEN, ""))
    return deploy_check.look(deploy_check.Asked(settings, api, here.root / "infra"))


def _show(looked: Iterable[Finding], *, as_json: bool) -> int:
    findings = list(looked)
    ready = all(finding.verdict != "missing" for finding in findings)
    if as_json:
        console.result_json({"ready": ready, "findings": [asdict(item) for item in findings]})
        return 0 if ready else Missing.exit_code
    for finding in findings:
        console.result(f"{finding.verdict:<9} {finding.name:<13} {finding.found}")
        if finding.next_step:
            console.result(f"{'':<23} next step: {finding.next_step}")
    return 0 if ready else Missing.exit_code
