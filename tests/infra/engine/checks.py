"""What must hold in the API server after an `up`; every check returns what is wrong, as lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nearfar_infra import names

from .api import Api, Object

Labels = dict[str, str]


def selects(selector: Object, labels: Labels) -> bool:
    """Whether a label selector matches; an empty one matches everything."""
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= labels.items() and all(
        _expression(each, labels) for each in selector.get("matchExpressions") or []
    )


def _expression(each: Object, labels: Labels) -> bool:
    value, values = labels.get(each["key"]), each.get("values") or []
    table = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return table[each["operator"]]


def pods(api: Api) -> Iterator[str]:
    """Every pod runs or has ended well."""
    for pod in api.list("pods"):
        phase = pod.get("status", {}).get("phase")
        if phase not in {"Running", "Succeeded"}:
            yield f"pod {_name(pod)} is {phase}"


def placement(api: Api) -> Iterator[str]:
    """Pods are on the pool that they name; the GPU pool takes nothing but what tolerates it."""
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in api.list("nodes")}
    for pod in api.list("pods"):
        spec, node = pod["spec"], nodes[pod["spec"]["nodeName"]]
        asked, found = spec.get("nodeSelector", {}).get(names.POOL_LABEL), node[names.POOL_LABEL]
        if asked is not None and asked != found:
            yield f"pod {_name(pod)} asked for pool {asked} and is on {found}"
        if _gpus(spec) and found != names.GPU_POOL:
            yield f"pod {_name(pod)} has a GPU on pool {found}"
        if found == names.GPU_POOL and not _tolerates(spec):
            yield f"pod {_name(pod)} is on the GPU pool without tolerating its taint"


def engine(api: Api) -> Iterator[str]:
    """vLLM runs, on the GPU node, and holds a GPU there."""
    found = [
        pod
        for pod in api.list("pods", names.SERVING)
        if names.selector("vllm").items() <= pod["metadata"]["labels"].items()
        and _gpus(pod["spec"])
    ]
    if not found:
        yield "no pod of vLLM holds a GPU"
    for pod in found:
        node = api.get("nodes", pod["spec"]["nodeName"]) or {}
        if node["status"]["allocatable"].get(names.GPU_RESOURCE, "0") == "0":
            yield f"{_name(pod)} is on a node that advertises no GPU"


def policies(api: Api, spared: frozenset[str] = frozenset()) -> Iterator[str]:
    """Each namespace denies by default; every exception selects pods, and peers that are there.

    `spared` are policies whose pods have ended and are gone.
    """
    spaces = {n["metadata"]["name"]: n["metadata"]["labels"] for n in api.list("namespaces")}
    running = api.list("pods")
    ours = {name for name, labels in spaces.items() if labels.items() >= _OURS.items()}
    denied = set()
    for policy in api.list("networkpolicies"):
        meta, spec = policy["metadata"], policy["spec"]
        if not spec.get("ingress") and not spec.get("egress"):
            denied.add((meta["namespace"], tuple(sorted(spec["policyTypes"]))))
            continue
        inside = [pod for pod in running if pod["metadata"]["namespace"] == meta["namespace"]]
        needed = _name(policy) not in _FOR_THEM | spared and not _absent(spec["podSelector"])
        if needed and not _any(spec["podSelector"], inside):
            yield f"policy {_name(policy)} selects no pod"
        for peer in _peers(spec):
            nobody = not _met(peer, meta["namespace"], spaces, running)
            if "ipBlock" not in peer and not _absent(peer.get("podSelector") or {}) and nobody:
                yield f"policy {_name(policy)} names a peer that is nobody: {peer}"
    for name in ours - {space for space, types in denied if types == ("Egress", "Ingress")}:
        yield f"namespace {name} does not deny by default"


def references(api: Api) -> Iterator[str]:
    """What a pod mounts or takes its environment from is there; kwok would not miss it."""
    there = {
        (kind, _name(each))
        for kind in ("configmaps", "secrets", "persistentvolumeclaims")
        for each in api.list(kind)
    }
    for pod in api.list("pods"):
        if pod["status"]["phase"] == "Running":
            for kind, name in _referred(pod["spec"]):
                if (kind, f"{pod['metadata']['namespace']}/{name}") not in there:
                    yield f"pod {_name(pod)} needs {kind} {name}"


def images(api: Api, mirror: str) -> Iterator[str]:
    """Every image of ours comes from the mirror; what the product pins, by digest."""
    host = mirror.partition("://")[2]
    for pod in api.list("pods"):
        if pod["metadata"]["labels"].get("k8s-app") == "kube-dns":
            continue  # the cluster's own
        spec = pod["spec"]
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            if not container["image"].startswith(host):
                yield f"{_name(pod)} pulls {container['image']}"


def left(api: Api) -> Iterator[str]:
    """What a destroy must not leave in a cluster."""
    system = {"default", "kube-system", "kube-public", "kube-node-lease"}
    for space in api.list("namespaces"):
        if space["metadata"]["name"] not in system:
            yield f"namespace {space['metadata']['name']}"
    for kind in ("persistentvolumes", "persistentvolumeclaims"):
        yield from (f"{kind} {_name(each)}" for each in api.list(kind))
    for service in api.list("services"):
        if service["spec"]["type"] == "LoadBalancer":
            yield f"service {_name(service)}"


# Parts that the configuration of the pass does not ask for; policies name them all the same.
_NOT_DEPLOYED = {"router", "gate", "embeddings", "edge", "edge-store"}
# Of the pods in this namespace only the router's ask the API server.
_FOR_THEM = {"nearfar-serving/to-api-server"}
_OURS = {"app.kubernetes.io/part-of": names.PROJECT}


def _name(thing: Object) -> str:
    meta = thing["metadata"]
    return "/".join(filter(None, (meta.get("namespace"), meta["name"])))


def _gpus(spec: Object) -> bool:
    limits = (each.get("resources", {}).get("limits", {}) for each in spec["containers"])
    return any(names.GPU_RESOURCE in each for each in limits)


def _tolerates(spec: Object) -> bool:
    return any(
        each.get("key") in (None, names.GPU_TAINT["key"]) and each.get("operator") == "Exists"
        for each in spec.get("tolerations", [])
    )


def _referred(spec: Object) -> Iterator[tuple[str, str]]:
    for volume in spec.get("volumes", []):
        for source in (volume, *volume.get("projected", {}).get("sources", [])):
            for key, kind, named in _SOURCES:
                if key in source and not source[key].get("optional"):
                    yield kind, source[key].get(named) or source[key]["name"]
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        for entry in container.get("env", []):
            for key, kind in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
                found = entry.get("valueFrom", {}).get(key)
                if found and not found.get("optional"):
                    yield kind, found["name"]


# (field of a volume, kind, where its name stands)
_SOURCES = (
    ("configMap", "configmaps", "name"),
    ("secret", "secrets", "secretName"),
    ("persistentVolumeClaim", "persistentvolumeclaims", "claimName"),
)


def _absent(selector: Object) -> bool:
    labels = selector.get("matchLabels") or {}
    return labels.get("app.kubernetes.io/name") in _NOT_DEPLOYED


def _peers(spec: Object) -> list[Object]:
    rules = [*spec.get("ingress", []), *spec.get("egress", [])]
    return [peer for rule in rules for peer in rule.get("from", []) + rule.get("to", [])]


def _any(selector: Object, pods: list[Object]) -> bool:
    return any(selects(selector, pod["metadata"].get("labels", {})) for pod in pods)


def _met(peer: Object, own: str, spaces: dict[str, Labels], pods: list[Any]) -> bool:
    """Whether a peer of a policy is any pod at all."""
    chosen = peer.get("namespaceSelector")
    inside = {n for n, labels in spaces.items() if selects(chosen, labels)} if chosen else {own}
    there = [pod for pod in pods if pod["metadata"]["namespace"] in inside]
    return _any(peer.get("podSelector") or {}, there)
