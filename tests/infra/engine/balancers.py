"""Played: the cloud controller manager, and the controller of the nodes' firewall."""

from __future__ import annotations

import json

from .api import Api, Object, Refused
from .linode.account import Account, State
from .linode.plain import address
from .linode.web import instance

FIREWALLS = "networking.linode.com/alpha1v1/cloudfirewalls"
CONTROLLER = {"app": "cloud-firewall-controller"}
_CLEANUP = "service.kubernetes.io/load-balancer-cleanup"
_GUARDED = "networking.linode.com/firewall"
_NOTE = "service.beta.kubernetes.io/linode-loadbalancer-"


def balance(api: Api, account: Account) -> None:
    """Give every Service of type LoadBalancer a NodeBalancer, and take it back."""
    for service in api.list("services"):
        meta = service["metadata"]
        there = _CLEANUP in meta.get("finalizers", [])
        if meta.get("deletionTimestamp") and there:
            _take_back(api, account, meta)
        elif service["spec"].get("type") == "LoadBalancer" and not there:
            _give(api, account, service)


def guard(api: Api, account: Account) -> None:
    """Keep all nodes in one firewall while the controller runs and its rules are there."""
    if not running(api, CONTROLLER):
        return
    for rules in _rules(api):
        meta = rules["metadata"]
        state_label = f"lke-{next(iter(account.read().of('LkeCluster')), 'none')}"
        if meta.get("deletionTimestamp"):
            with account.open() as state:
                _drop(state, state_label)
            _finalizers(api, FIREWALLS, meta, remove=_GUARDED)
        else:
            with account.open() as state:
                _keep(state, state_label)
            if _GUARDED not in meta.get("finalizers", []):
                _finalizers(api, FIREWALLS, meta, add=_GUARDED)


def running(api: Api, labels: dict[str, str]) -> set[str]:
    """The nodes where a pod with these labels runs."""
    return {
        pod["spec"]["nodeName"]
        for pod in api.list("pods")
        if labels.items() <= pod["metadata"].get("labels", {}).items()
        and pod.get("status", {}).get("phase") == "Running"
    }


def _give(api: Api, account: Account, service: Object) -> None:
    """Make the NodeBalancer that a Service asks for, with its firewall where it names rules."""
    meta = service["metadata"]
    notes = {
        name.removeprefix(_NOTE): value
        for name, value in meta.get("annotations", {}).items()
        if name.startswith(_NOTE)
    }
    with account.open() as state:
        number = state.add(
            "NodeBalancer",
            {
                "label": f"ccm-{meta['uid'][:8]}",
                "uid": meta["uid"],
                "lke_cluster": next(iter(state.of("LkeCluster"))),
                "tags": notes.get("tags", "").split(","),
                "notes": notes,
                "ports": [port["port"] for port in service["spec"]["ports"]],
            },
        )
        if "firewall-acl" in notes:
            rules = {"inboundPolicy": "DROP", "acl": json.loads(notes["firewall-acl"])}
            devices = [["nodebalancer", int(number)]]
            state.add(
                "Firewall",
                rules | {"label": f"ccm-fw-{number}", "uid": meta["uid"], "devices": devices},
            )
    _finalizers(api, "services", meta, add=_CLEANUP)
    host = address(number)
    found = {"ip": host["ipv4"], "hostname": host["hostname"]}
    body = {"status": {"loadBalancer": {"ingress": [found]}}}
    api.patch("services", meta["name"], body, meta["namespace"], status=True)


def _take_back(api: Api, account: Account, meta: Object) -> None:
    with account.open() as state:
        remove(state, "NodeBalancer", meta["uid"])
        remove(state, "Firewall", meta["uid"])
    _finalizers(api, "services", meta, remove=_CLEANUP)


def _rules(api: Api) -> list[Object]:
    try:
        return api.list(FIREWALLS)
    except Refused as error:
        if error.status == 404:
            return []
        raise


def _keep(state: State, label: str) -> None:
    nodes = [name for pool in state.of("LkeNodePool").values() for name in pool["nodes"]]
    devices = [["linode", instance(name)] for name in nodes]
    for firewall in state.of("Firewall").values():
        if firewall["label"] == label:
            firewall["devices"] = devices
            return
    state.add("Firewall", {"label": label, "inboundPolicy": "DROP", "devices": devices})


def _drop(state: State, label: str) -> None:
    firewalls = state.of("Firewall")
    for number in [n for n, firewall in firewalls.items() if firewall["label"] == label]:
        firewalls.pop(number)


def remove(state: State, kind: str, uid: str) -> None:
    """Take away what was made for an object of the cluster."""
    things = state.of(kind)
    for number in [n for n, thing in things.items() if thing.get("uid") == uid]:
        things.pop(number)


def _finalizers(api: Api, kind: str, meta: Object, *, add: str = "", remove: str = "") -> None:
    left = [each for each in meta.get("finalizers", []) if each != remove]
    body = {"metadata": {"finalizers": [*left, add] if add else left}}
    api.patch(kind, meta["name"], body, meta["namespace"])
