"""Every exception to the default deny, by namespace: what may come in, what may go out, and why."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from nearfar_infra import flows, names
from nearfar_infra.flows import Flow
from nearfar_infra.peers import (
    API_SERVER,
    DNS,
    NODEBALANCERS,
    NODES,
    WORLD,
    Allow,
    Network,
    Pods,
)
from nearfar_infra.settings import Settings

TRAEFIK = names.selector("traefik")
TRAEFIK_PORT = 8443
# Pods that ask the model hub and the package index, and only while they do.
FETCHES = {"nearfar.dev/fetches": "true"}
# Pods that ask the Kubernetes API: the router finds vLLM's pods, a check looks for GPUs.
ASKS_API = {"nearfar.dev/asks-api": "true"}
# Where the parts that serve the model listen; a gate or a router stands before vLLM.
_SERVING_PARTS = ("vllm", "gate", "router")
_API = (443, 6443)
ROUTER_METRICS_PORT = 29000
SPIN_PORT = 80


def namespaces(settings: Settings) -> tuple[str, ...]:
    """The namespaces that a deployment has: what is not asked for has none."""
    target = settings.edge.target
    asked = {
        names.SERVING: True,
        names.INGRESS: True,
        names.GPU_OPERATOR: True,
        names.STORE: settings.redis_url is None,
        names.MONITORING: settings.monitoring,
        names.KEDA: settings.serving.autoscale_max > 0,
        names.EDGE: target in ("spinkube", "wasmtime"),
        names.SPIN_OPERATOR: target == "spinkube",
        names.CERT_MANAGER: target == "spinkube",
    }
    return tuple(name for name, wanted in asked.items() if wanted)


def rules(settings: Settings) -> tuple[Allow, ...]:
    """Every exception of these settings' namespaces."""
    present = namespaces(settings)
    found = [rule for table in _TABLES for rule in table(settings)]
    return tuple(
        rule
        for rule in found
        if rule.namespace in present
        and not (
            isinstance(rule.peer, Pods) and rule.peer.namespace not in (*present, names.KUBE_SYSTEM)
        )
    )


def _everywhere(settings: Settings) -> Iterator[Allow]:
    for name in namespaces(settings):
        yield Allow("dns", name, "out", DNS, (53, "53/UDP"), "names are looked up in the cluster")


def _ingress(settings: Settings) -> Iterator[Allow]:
    here = names.INGRESS
    yield Allow(
        "from-nodebalancer", here, "in", NODEBALANCERS, (TRAEFIK_PORT,), "the way in", TRAEFIK
    )
    yield Allow("to-api-server", here, "out", API_SERVER, _API, "Traefik reads its routes", TRAEFIK)
    yield Allow("to-authority", here, "out", WORLD, (443,), "certificates are asked for", TRAEFIK)
    if settings.front.domain is not None:
        dns = (53, "53/UDP")
        why = "the proof of a certificate is looked up where the world would"
        yield Allow("to-name-servers", here, "out", WORLD, dns, why, TRAEFIK)
    for flow in flows.exposed(settings):
        for part in _behind(flow.service):
            yield from _both(
                f"{flow.name}-{part}",
                (here, "traefik"),
                (flow.namespace, part),
                (_listens(flow, settings),),
                f"the flow {flow.name}",
            )


def _serving(settings: Settings) -> Iterator[Allow]:
    here = names.SERVING
    for asker, asked in (
        ("router", "vllm"),
        ("gate", "vllm"),
        ("gate", "router"),
        ("router", "gate"),
    ):
        yield from _both(
            f"{asker}-{asked}",
            (here, asker),
            (here, asked),
            (flows.MODEL_PORT, flows.ENGINE_PORT),
            "what stands before vLLM asks it",
        )
    yield Allow("to-model-hub", here, "out", WORLD, (443,), "weights and libraries", FETCHES)
    if settings.mirror is not None:
        parts = urlsplit(settings.mirror)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        anywhere = Network("0.0.0.0/0")
        yield Allow("to-mirror", here, "out", anywhere, (port,), "weights and libraries", FETCHES)
    yield Allow("to-api-server", here, "out", API_SERVER, _API, "finds vLLM's pods", ASKS_API)


def _gates(settings: Settings) -> Iterator[Allow]:
    """The gate runs in vLLM's own server or in front of it, so both may ask its Redis."""
    here = names.SERVING
    for part in ("vllm", "gate"):
        pods = names.selector(part)
        if settings.redis_url is not None:
            port = urlsplit(settings.redis_url).port or flows.REDIS_PORT
            network = Network("0.0.0.0/0")
            yield Allow(f"{part}-redis", here, "out", network, (port,), "the gates' Redis", pods)
        else:
            yield from _both(
                f"{part}-redis",
                (here, part),
                (names.STORE, "redis"),
                (flows.REDIS_PORT,),
                "the gate counts what each tenant may have",
            )
        yield from _both(
            f"{part}-otlp",
            (here, part),
            (names.MONITORING, "collector"),
            (flows.COLLECTOR_GRPC_PORT, flows.COLLECTOR_PORT),
            "spans of requests",
        )


def _edge(_: Settings) -> Iterator[Allow]:
    """An edge inside the cluster asks the model and the collector without leaving it."""
    here = names.EDGE
    for part in _SERVING_PARTS:
        yield from _both(
            f"edge-{part}",
            (here, "edge"),
            (names.SERVING, part),
            (flows.MODEL_PORT,),
            "the edge forwards what it cannot answer",
        )
    yield from _both(
        "edge-embeddings",
        (here, "edge"),
        (names.SERVING, "embeddings"),
        (flows.EMBEDDINGS_PORT,),
        "the edge searches",
    )
    yield from _both(
        "edge-otlp",
        (here, "edge"),
        (names.MONITORING, "collector"),
        (flows.COLLECTOR_PORT,),
        "the edge's records",
    )
    yield from _within(here, "the edge and the store beside it")
    yield Allow(
        "to-issuers", here, "out", WORLD, (443,), "keys of token issuers", names.selector("edge")
    )


def _monitoring(_: Settings) -> Iterator[Allow]:
    here = names.MONITORING
    yield from _within(here, "Prometheus, Grafana and the exporters ask each other")
    yield Allow("to-api-server", here, "out", API_SERVER, _API, "what there is to watch is listed")
    yield Allow("to-nodes", here, "out", NODES, (10250,), "kubelets")
    for name, ports in _WATCHED.items():
        yield Allow(f"to-{name}", here, "out", Pods(name), ports, "metrics")
        yield Allow("from-prometheus", name, "in", Pods(here), ports, "metrics")
    yield from _both(
        "keda-prometheus",
        (names.KEDA, ""),
        (here, ""),
        (9090,),
        "KEDA asks how much is waiting",
    )


def _operators(_: Settings) -> Iterator[Allow]:
    """Charts that watch the API server, and that it calls in turn."""
    for name, called in _OPERATORS.items():
        yield from _within(name, "its own parts")
        yield Allow("to-api-server", name, "out", API_SERVER, _API, "it watches objects")
        if called:
            why = "the API server calls its webhooks and metrics"
            yield Allow("from-api-server", name, "in", API_SERVER, called, why)
    why = "drivers fetch the kernel's headers"
    yield Allow("to-packages", names.GPU_OPERATOR, "out", WORLD, (80, 443), why)


# Namespace → ports that Prometheus asks.
_WATCHED: dict[str, tuple[int | str, ...]] = {
    names.SERVING: (flows.MODEL_PORT, ROUTER_METRICS_PORT),
    names.INGRESS: (9100,),
    names.GPU_OPERATOR: (9400, 8080),
    names.KEDA: (8080, 9022),
    names.EDGE: (3000,),
}
# Namespace → ports that the API server calls.
_OPERATORS: dict[str, tuple[int | str, ...]] = {
    names.GPU_OPERATOR: (),
    names.KEDA: (6443, 9443),
    names.SPIN_OPERATOR: (9443,),
    names.CERT_MANAGER: (10250,),
}
_TABLES = (_everywhere, _ingress, _serving, _gates, _edge, _monitoring, _operators)


def _behind(service: str) -> tuple[str, ...]:
    """The parts that may stand behind a Service of the flow table."""
    return _SERVING_PARTS if service == flows.MODEL_SERVICE else (service,)


def _listens(flow: Flow, settings: Settings) -> int:
    """The port of the pods behind a flow: a policy counts theirs, not the Service's.

    Under SpinKube they listen on 80, which no setting of the operator changes.
    """
    spin = flow is flows.CLIENTS and settings.edge.target == "spinkube"
    return SPIN_PORT if spin else flow.port


def _both(
    name: str,
    asker: tuple[str, str],
    asked: tuple[str, str],
    ports: tuple[int | str, ...],
    why: str,
) -> Iterator[Allow]:
    """Both halves of one conversation; ends are (namespace, part), an empty part is all pods."""
    ours, theirs = (names.selector(part) if part else {} for _, part in (asker, asked))
    yield Allow(f"{name}-out", asker[0], "out", Pods(asked[0], theirs), ports, why, ours)
    yield Allow(f"{name}-in", asked[0], "in", Pods(asker[0], ours), ports, why, theirs)


def _within(namespace: str, why: str) -> Iterator[Allow]:
    yield Allow("within-out", namespace, "out", Pods(namespace), (), why)
    yield Allow("within-in", namespace, "in", Pods(namespace), (), why)
