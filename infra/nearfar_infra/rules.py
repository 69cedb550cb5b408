"""What one setting may be, and which settings cannot work together."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from nearfar_infra.plans import PLANS
from nearfar_infra.values import Values

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_HOST = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

KUBERNETES_VERSIONS = ("1.33", "1.34", "1.35", "1.36")
EDGE_TARGETS = ("akamai-functions", "spinkube", "wasmtime", "none")


def each(values: Values) -> dict[str, str]:
    """Return what is wrong with single keys, of those that could be read."""
    found = {}
    for key, (right, problem) in _CHECKS.items():
        if not values.sound(key) or values.found[key] is None:
            continue
        if not right(values.found[key]):
            found[key] = problem
    return found


def together(values: Values) -> dict[str, str]:
    """Return which keys contradict others; only rules whose keys are all sound are asked."""
    found: dict[str, str] = {}
    for keys, rule in _RULES:
        if values.sound(*keys):
            found |= dict(rule(values))
    return found


def is_network(text: object) -> bool:
    """Whether it is a CIDR of IPv4 or IPv6 without bits beyond its prefix."""
    try:
        ipaddress.ip_network(str(text))
    except ValueError:
        return False
    return "/" in str(text)


def _is_url(text: object) -> bool:
    parts = urlsplit(str(text))
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query


def _between(least: int, most: int) -> tuple[Callable[[object], bool], str]:
    problem = f"must be a whole number from {least} to {most}"
    return (lambda value: isinstance(value, int) and least <= value <= most), problem


def _one_of(*allowed: str) -> tuple[Callable[[object], bool], str]:
    return (lambda value: value in allowed), f"must be one of {', '.join(allowed)}"


def _like(pattern: re.Pattern[str], problem: str) -> tuple[Callable[[object], bool], str]:
    return (lambda value: bool(pattern.fullmatch(str(value)))), problem


def _networks(value: object) -> bool:
    return isinstance(value, tuple) and all(is_network(item) for item in value)


_CIDRS = (_networks, "must be networks like 203.0.113.7/32")
_CPU_PLANS = tuple(key for key, plan in PLANS.items() if plan.gpu is None)
_GPU_PLANS = tuple(key for key, plan in PLANS.items() if plan.gpu is not None)

_CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "region": _like(re.compile(r"[a-z]{2}-[a-z0-9-]+"), "must be a Linode region like us-ord"),
    "label": _like(_LABEL, "must be lower-case letters, digits and dashes, at most 32"),
    "kubernetesVersion": _one_of(*KUBERNETES_VERSIONS),
    "apiAllowed": (
        lambda value: bool(value) and _networks(value),
        "must be networks like 203.0.113.7/32, at least one",
    ),
    "cpuPlan": _one_of(*_CPU_PLANS),
    "cpuNodesMin": _between(1, 100),
    "cpuNodesMax": _between(1, 100),
    "gpuPlan": _one_of(*_GPU_PLANS),
    "gpuNodesMin": _between(1, 100),
    "gpuNodesMax": _between(1, 100),
    "contextTokens": _between(1, 10_000_000),
    "maxRunning": _between(1, 10_000),
    "maxWaiting": _between(0, 10_000),
    "gpuMemoryPercent": _between(10, 98),
    "replicas": _between(1, 100),
    "autoscaleMax": _between(0, 100),
    "weights": _one_of("volume", "stream"),
    "snapshotImage": _like(
        re.compile(r"[a-z0-9][a-z0-9./:_-]+@sha256:[0-9a-f]{64}"), "must end in @sha256:DIGEST"
    ),
    "modelVolumeGib": _between(10, 16_384),
    "allowedSources": _CIDRS,
    "domain": _like(_HOST, "must be a host name in lower case"),
    "dnsZone": _like(_HOST, "must be a domain in lower case"),
    "acmeEmail": _like(re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "must be an e-mail address"),
    "acmeServer": (_is_url, "must be a web address"),
    "requestsPerMinute": _between(1, 1_000_000),
    "requestsBurst": _between(1, 1_000_000),
    "keyGeneration": _between(1, 1_000_000),
    "redisUrl": (
        lambda value: (
            urlsplit(str(value)).scheme == "rediss" and bool(urlsplit(str(value)).hostname)
        ),
        "must be rediss://user:password@host:port/db, since it leaves the cluster",
    ),
    "edgeTarget": _one_of(*EDGE_TARGETS),
    "edgeApp": _like(_LABEL, "must be lower-case letters, digits and dashes, at most 32"),
    "edgeRegistry": _like(
        re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+"), "must be like ghcr.io/acme/nearfar-edge"
    ),
    "edgeReplicas": _between(1, 100),
    "tenant": _like(_NAME, "must be letters, digits and . _ -"),
    "linodeApi": _like(
        re.compile(r"https?://[^\s?#]+/v4(beta)?"),
        "must be a web address that ends in /v4 or /v4beta",
    ),
    "mirror": (_is_url, "must be a web address without a query"),
}


def _bounds(values: Values) -> Iterator[tuple[str, str]]:
    for pool in ("cpu", "gpu"):
        if values.number(f"{pool}NodesMax") < values.number(f"{pool}NodesMin"):
            yield f"{pool}NodesMax", f"must not be less than {pool}NodesMin"


def _region(values: Values) -> Iterator[tuple[str, str]]:
    plan = PLANS[values.text("gpuPlan")]
    if values.text("region") not in plan.regions:
        yield "region", f"has no {plan.key}; it is to be had in {', '.join(plan.regions)}"


def _seats(values: Values) -> Iterator[tuple[str, str]]:
    """Every vLLM server takes all GPUs of a node, so there must be a node for each."""
    wanted = max(values.number("replicas"), values.number("autoscaleMax"))
    if values.number("gpuNodesMax") < wanted:
        yield "gpuNodesMax", f"must be at least {wanted}, a node for each vLLM server"
    if 0 < values.number("autoscaleMax") < values.number("replicas"):
        yield "autoscaleMax", "must not be less than replicas"
    if values.flag("scaleToZero") and values.number("autoscaleMax") == 0:
        yield "scaleToZero", "needs autoscaleMax of 1 or more"


def _volume(values: Values) -> Iterator[tuple[str, str]]:
    """A Linode volume is attached to one node at a time."""
    several = max(values.number("replicas"), values.number("autoscaleMax")) > 1
    if several and values.text("weights") == "volume":
        yield "weights", "must be stream for more than one server: a volume belongs to one node"


def _snapshot(values: Values) -> Iterator[tuple[str, str]]:
    if values.flag("snapshot") and values.text("weights") != "volume":
        yield "snapshot", "needs weights of volume, where it is kept"
    if values.flag("snapshot") and not values.maybe("snapshotImage"):
        yield "snapshotImage", "must be set beside snapshot: vLLM's own image has no CRIU"


_NEEDS_DOMAIN = (
    "must be set where allowedSources restricts who may come: without one the certificate is"
    " proved over port 443, which must then be open"
)


def _certificates(values: Values) -> Iterator[tuple[str, str]]:
    given = {key for key in ("domain", "dnsZone", "dnsToken") if values.maybe(key)}
    if given and len(given) < 3:
        for key in sorted({"domain", "dnsZone", "dnsToken"} - given):
            yield key, f"must be set beside {' and '.join(sorted(given))}"
    if values.listed("allowedSources") and "domain" not in given:
        yield "domain", _NEEDS_DOMAIN


def _zone(values: Values) -> Iterator[tuple[str, str]]:
    domain, zone = values.maybe("domain"), values.maybe("dnsZone")
    if domain and zone and domain != zone and not domain.endswith(f".{zone}"):
        yield "domain", "must lie in dnsZone"


def _edge(values: Values) -> Iterator[tuple[str, str]]:
    target = values.text("edgeTarget")
    if target in ("spinkube", "wasmtime") and not values.maybe("edgeRegistry"):
        yield "edgeRegistry", f"must be set for edgeTarget {target}"
    if bool(values.maybe("edgeRegistryUser")) != bool(values.maybe("edgeRegistryPassword")):
        yield "edgeRegistryPassword", "and edgeRegistryUser go together"


def _custom_model(values: Values) -> Iterator[tuple[str, str]]:
    if values.maybe("model"):
        for key in ("modelRevision", "servedName", "modelConfig"):
            if not values.maybe(key):
                yield key, "must be set beside model"
    else:
        for key in ("modelRevision", "servedName", "modelConfig"):
            if values.maybe(key):
                yield key, "needs model beside it"


def _monitored(values: Values) -> Iterator[tuple[str, str]]:
    if values.number("autoscaleMax") > 0 and not values.flag("monitoring"):
        yield "monitoring", "must be true for autoscaleMax: KEDA asks Prometheus"


_RULES: tuple[tuple[tuple[str, ...], Callable[[Values], Iterator[tuple[str, str]]]], ...] = (
    (("cpuNodesMin", "cpuNodesMax", "gpuNodesMin", "gpuNodesMax"), _bounds),
    (("region", "gpuPlan"), _region),
    (("replicas", "autoscaleMax", "gpuNodesMax", "scaleToZero"), _seats),
    (("replicas", "autoscaleMax", "weights"), _volume),
    (("snapshot", "weights", "snapshotImage"), _snapshot),
    (("domain", "dnsZone", "dnsToken", "allowedSources"), _certificates),
    (("domain", "dnsZone"), _zone),
    (("edgeTarget", "edgeRegistry", "edgeRegistryUser", "edgeRegistryPassword"), _edge),
    (("model", "modelRevision", "servedName", "modelConfig"), _custom_model),
    (("autoscaleMax", "monitoring"), _monitored),
)
