"""nearfar leftovers: what a cluster left behind, and what it costs."""

from __future__ import annotations

from dataclasses import asdict

import click

from nearfar import checkout, console, deployment, leftovers, linode
from nearfar.leftovers import Cluster, Leftover

HELP = """List what still carries a cluster's label or id: NodeBalancers, volumes, firewalls, nodes.

Run it after a destroy. It only reads, with LINODE_TOKEN. Exit code 1 where something is left that
is this cluster's for certain.

\b
Examples:
  nearfar leftovers --stack dev
  nearfar leftovers --label nearfar --cluster-id 123456
  nearfar leftovers --json
"""


@click.command("leftovers", help=HELP)
@click.option("--stack", help="Stack whose configuration says the cluster's label.")
@click.option("--label", help="Label of the cluster. Default: the stack's, or nearfar.")
@click.option("--cluster-id", default="", help="Its id, if you know it: finds more.")
@click.option("--api", default=linode.API, help="Address of Linode's API.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def command(stack: str | None, label: str | None, cluster_id: str, api: str, as_json: bool) -> int:
    if label is None:
        label = deployment.settings(checkout.here(), stack, ()).cluster.label
    found = leftovers.find(linode.from_environment(api), Cluster(label, cluster_id))
    sure = [item for item in found if item.sure]
    if as_json:
        total = sum(item.monthly for item in sure)
        document = {"left": [asdict(item) for item in found], "monthly_usd": round(total, 2)}
        console.result_json({"label": label, **document})
    else:
        _show(found, label)
    return 1 if sure else 0


def _show(found: list[Leftover], label: str) -> None:
    if not found:
        console.result(f"nothing is left of {label}")
        return
    console.result(f"{'KIND':<14} {'ID':<10} {'LABEL':<32} {'USD/MONTH':>10}  KNOWN BY")
    for item in found:
        why = item.why if item.sure else f"? {item.why}"
        console.result(
            f"{item.kind:<14} {item.id:<10} {item.label:<32} {item.monthly:>10.2f}  {why}"
        )
    total = sum(item.monthly for item in found if item.sure)
    console.result(f"{'together':<58} {total:>10.2f}  (USD a month, without what is marked ?)")
