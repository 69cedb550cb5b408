"""Waits until nodes advertise a GPU, by asking the Kubernetes API from inside the cluster.

    wait_for_gpu.py --selector LABEL=VALUE --resource nvidia.com/gpu --nodes 1 --within 1200

Exit codes: 0 they do, 1 they do not in time (the last line says how it stands on each node).
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ASK_EVERY_S = 5.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("wait_for_gpu")
    parser.add_argument("--selector", required=True)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--within", type=float, required=True, metavar="SECONDS")
    asked = parser.parse_args(argv)
    return wait(
        lambda: nodes(asked.selector), asked.resource, asked.nodes, asked.within, sleep=time.sleep
    )


def wait(
    ask: Callable[[], list[Any]],
    resource: str,
    needed: int,
    within_s: float,
    *,
    sleep: Callable[[float], None],
) -> int:
    """Ask again and again; print what is seen whenever it changes."""
    told = ""
    for _ in range(max(1, round(within_s / ASK_EVERY_S))):
        try:
            found = {node["metadata"]["name"]: advertised(node, resource) for node in ask()}
            seen = ", ".join(f"{name}: {n}" for name, n in sorted(found.items())) or "no such node"
        except OSError as error:
            found, seen = {}, f"the API did not answer ({error})"
        if sum(count > 0 for count in found.values()) >= needed:
            print(f"{resource} is advertised: {seen}")
            return 0
        if seen != told:
            print(f"waiting for {resource}: {seen}", flush=True)
            told = seen
        sleep(ASK_EVERY_S)
    print(f"{resource} is not advertised on {needed} node(s) after {within_s:.0f} s: {told}")
    return 1


def advertised(node: Any, resource: str) -> int:
    """How much of a resource pods may ask of a node."""
    return int(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def nodes(selector: str) -> list[Any]:
    """The nodes with a label, by this pod's own account."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    query = urllib.parse.urlencode({"labelSelector": selector})
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/nodes?{query}",
        headers={"authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"},
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=trust, timeout=10) as reply:  # noqa: S310
        found: list[Any] = json.load(reply)["items"]
        return found


if __name__ == "__main__":
    sys.exit(main())
