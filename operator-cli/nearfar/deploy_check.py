"""Whether a deployment can work, looked at before anything is created."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfar import linode
from nearfar.errors import NearfarError, Refused
from nearfar.linode import Linode
from nearfar.machine import Finding
from nearfar_infra.errors import InfraError
from nearfar_infra.settings import Settings
from nearfar_infra.sources import read_pins, wanted

# Scope → what it is for. docs/deploy.md lists them too.
SCOPES = {
    "lke:read_write": "the cluster and its pools",
    "linodes:read_only": "nodes are waited for",
    "events:read_only": "the end of a deletion is waited for",
    "nodebalancers:read_only": "the NodeBalancer's firewall is looked at",
    "firewall:read_only": "firewalls are looked at",
    "volumes:read_only": "`nearfar leftovers` looks for volumes",
    "account:read_only": "the account's capabilities are looked at",
}
DOMAIN_SCOPE = "domains:read_write"
CAPABILITIES = ("Kubernetes", "NodeBalancers", "Cloud Firewall", "Block Storage", "GPU Linodes")
SPIN, AKA, PULUMI = (4, 0, 0), (0, 4, 0), (3, 200, 0)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked at: settings, the token (empty: none) and where the digests lie."""

    settings: Settings
    api: Linode
    infra: Path


def look(asked: Asked) -> Iterator[Finding]:
    """Look at everything; Linode is asked only with a token."""
    yield from _programs(asked.settings)
    yield _digests(asked)
    if not asked.api.token:
        step = f"make one at cloud.linode.com/profile/tokens, and set {linode.TOKEN}."
        yield Finding("token", "missing", "none", step)
        return
    try:
        yield _scopes(asked, asked.api.scopes())
    except NearfarError as error:
        # With a token that is not valid every other answer would be the same.
        yield Finding("token", "missing", error.message, error.next_step)
        return
    for name, check in _CHECKS.items():
        yield _guarded(name, asked, check)


def _guarded(name: str, asked: Asked, check: Any) -> Finding:
    """A refusal of the API is a finding; it ends no other."""
    try:
        found: Finding = check(asked)
    except NearfarError as error:
        return Finding(name, "missing", error.message, error.next_step)
    return found


def _scopes(asked: Asked, scopes: frozenset[str]) -> Finding:
    needed = dict(SCOPES)
    if asked.settings.front.domain is not None:
        needed[DOMAIN_SCOPE] = "the domain's address is written"
    lacking = [f"{scope} ({why})" for scope, why in needed.items() if not linode.may(scopes, scope)]
    if lacking:
        step = "make a token that has them as well."
        return Finding("token", "missing", f"lacks {', '.join(lacking)}", step)
    return Finding("token", "ok", f"has {', '.join(sorted(scopes))}")


def _region(asked: Asked) -> Finding:
    region = asked.settings.cluster.region
    found = asked.api.one(f"/regions/{region}")
    lacking = [name for name in CAPABILITIES if name not in found.get("capabilities", ())]
    if found.get("status") != "ok" or lacking:
        what = f"lacks {', '.join(lacking)}" if lacking else f"is {found.get('status')}"
        return Finding("region", "missing", f"{region} {what}", "set another region.")
    return Finding("region", "ok", f"{region}, {found.get('label', '')}".rstrip(", "))


def _plans(asked: Asked) -> Finding:
    """Whether both pools' plans are to be had in the region now."""
    cluster = asked.settings.cluster
    told = {
        str(entry["plan"]): bool(entry["available"])
        for entry in asked.api.all(f"/regions/{cluster.region}/availability")
    }
    wanted_plans = (cluster.gpu.plan.key, cluster.cpu.plan.key)
    sold_out = [plan for plan in wanted_plans if told.get(plan) is False]
    if cluster.gpu.plan.key not in told and cluster.gpu.plan.key not in sold_out:
        sold_out.insert(0, cluster.gpu.plan.key)  # what is not named is not offered there
    if sold_out:
        step = "set another gpuPlan or region, or try again later."
        return Finding(
            "plans", "missing", f"{', '.join(sold_out)} not available in {cluster.region}", step
        )
    return Finding("plans", "ok", f"{', '.join(wanted_plans)} available in {cluster.region}")


def _version(asked: Asked) -> Finding:
    offered = sorted(str(entry["id"]) for entry in asked.api.all("/lke/versions"))
    version = asked.settings.cluster.version
    if version in offered:
        return Finding("kubernetes", "ok", version)
    step = f"set kubernetesVersion to one of {', '.join(offered)}."
    return Finding("kubernetes", "missing", f"LKE offers no {version}", step)


def _label(asked: Asked) -> Finding:
    label = asked.settings.cluster.label
    same = [str(entry["id"]) for entry in asked.api.all("/lke/clusters") if entry["label"] == label]
    if not same:
        return Finding("label", "ok", f"{label} is free")
    found = f"a cluster {label} is there already (id {', '.join(same)})"
    return Finding(
        "label", "optional", found, "right for this stack's own; else set another label."
    )


def _quota(asked: Asked) -> Finding:
    """Linode's API tells no limit for GPUs: what can be told is how many there are."""
    pool = asked.settings.cluster.gpu
    running = [
        str(entry["label"])
        for entry in asked.api.all("/linode/instances")
        if "gpu" in str(entry.get("type"))
    ]
    asked_for = pool.most * pool.plan.gpus
    found = f"{len(running)} GPU Linodes run, up to {pool.most} more ({asked_for} GPUs) are wanted"
    step = "the API tells no limit; a new account may have to ask support for GPU plans first."
    return Finding("quota", "ok" if running else "optional", found, "" if running else step)


def _capable(asked: Asked) -> Finding:
    try:
        found = asked.api.one("/account").get("capabilities", ())
    except Refused as error:
        return Finding("account", "optional", error.message, error.next_step)
    lacking = [name for name in ("Kubernetes", "NodeBalancers") if name not in found]
    if lacking:
        step = "complete the account's sign-up, or ask support."
        return Finding("account", "missing", f"lacks {', '.join(lacking)}", step)
    return Finding("account", "ok", "may make clusters and NodeBalancers")


_CHECKS: Mapping[str, Any] = {
    "account": _capable,
    "region": _region,
    "plans": _plans,
    "kubernetes": _version,
    "label": _label,
    "quota": _quota,
}


def _digests(asked: Asked) -> Finding:
    images = wanted(asked.settings.parts)
    try:
        pins = read_pins(asked.infra / asked.settings.pins)
    except InfraError as error:
        return Finding("digests", "missing", error.message, error.next_step)
    lacking = [image.tagged for image in images if image.tagged not in pins]
    if lacking:
        found = f"{len(lacking)} of {len(images)} images have none: {', '.join(lacking)}"
        return Finding("digests", "missing", found, "nearfar images pin")
    return Finding("digests", "ok", f"all {len(images)} images are pinned")


def _programs(settings: Settings) -> Iterator[Finding]:
    yield _program("pulumi", ("version",), PULUMI, "install the Pulumi CLI and put it on PATH.")
    if settings.edge.target in ("akamai-functions", "spinkube"):
        yield _program("spin", ("--version",), SPIN, "install Spin 4 or newer, put it on PATH.")
    if settings.edge.target == "akamai-functions" and shutil.which("spin"):
        yield _plugin()
        yield _login()


def _program(name: str, words: tuple[str, ...], least: tuple[int, ...], step: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, "missing", "not found", step)
    return _new_enough(name, _said(name, *words), least, step)


def _plugin() -> Finding:
    """The plugin for Akamai; from 0.4.0 on it takes variables from a file."""
    lines = [line for line in _said("spin", "plugins", "list").splitlines() if _is_aka(line)]
    step = "spin plugins install aka, or spin plugins upgrade aka"
    if not lines:
        return Finding("spin aka", "missing", "not installed", step)
    return _new_enough("spin aka", lines[0], AKA, step)


def _is_aka(line: str) -> bool:
    return line.split()[:1] == ["aka"] and "installed" in line


def _login() -> Finding:
    if _said("spin", "aka", "info", "--format", "json"):
        return Finding("spin login", "ok", "logged in")
    return Finding("spin login", "missing", "not logged in", "spin aka login")


def _new_enough(name: str, said: str, least: tuple[int, ...], step: str) -> Finding:
    found = _VERSION.search(said)
    version = tuple(int(part) for part in found.groups()) if found else ()
    shown = ".".join(map(str, version)) or "no version told"
    if version < least:
        wanted_text = ".".join(map(str, least))
        return Finding(name, "missing", f"{shown}, {wanted_text} or newer is needed", step)
    return Finding(name, "ok", shown)


def _said(*argv: str) -> str:
    """What a program says; nothing where it fails."""
    try:
        result = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=dict(os.environ),
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout if result.returncode == 0 else ""
