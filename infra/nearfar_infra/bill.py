"""What a deployment of some settings costs, part by part, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearfar_infra import prices
from nearfar_infra.prices import Price
from nearfar_infra.settings import Pool, Settings

# What is not in the table, and why; told beside the sum.
NOT_COUNTED = (
    "the edge on Akamai Functions: no public price list",
    "network transfer beyond what the plans include",
    "Linode Domains and the container registry of your choice",
)
# GiB of each claim. The manifests say the same; they are not asked, since `nearfar cost` works
# without Pulumi, and a test compares them. 10 is Linode's smallest volume.
CERTIFICATES, GATES_REDIS, METRICS, TRACES, EMBEDDINGS, ROUTER, EDGE_STORE = (
    10,
    10,
    20,
    10,
    10,
    10,
    10,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the bill: `least` and `most` pieces at a price; GiB for volumes."""

    name: str
    price: Price
    least: int
    most: int

    def monthly(self, *, most: bool = False) -> float:
        return self.price.monthly * (self.most if most else self.least)

    def hourly(self, *, most: bool = False) -> float:
        return self.price.hourly * (self.most if most else self.least)


def parts(settings: Settings) -> tuple[Part, ...]:
    """Every part that is billed, those that cost nothing included."""
    cluster, others = settings.cluster, prices.others()
    plane = others["control-plane-ha" if cluster.high_availability else "control-plane"]
    return (
        Part("control plane", plane, 1, 1),
        _pool("CPU nodes", cluster.cpu),
        _pool("GPU nodes", cluster.gpu),
        Part("NodeBalancer", others["nodebalancer"], 1, 1),
        Part("firewalls", others["firewall"], 2, 2),
        *(_volume(name, gib) for name, gib in volumes(settings)),
    )


def volumes(settings: Settings) -> Iterator[tuple[str, int]]:
    """Name and GiB of every claim; each is a volume of its own."""
    yield "certificates", CERTIFICATES
    if settings.serving.weights == "volume":
        yield "model", settings.serving.model_volume_gib
    if settings.redis_url is None:
        yield "gates' Redis", GATES_REDIS
    if settings.monitoring:
        yield "metrics", METRICS
        yield "traces", TRACES
    if settings.serving.embeddings:
        yield "embeddings", EMBEDDINGS
    if "router" in settings.parts:
        yield "router", ROUTER
    if settings.edge.target in ("spinkube", "wasmtime"):
        yield "edge's store", EDGE_STORE


def _volume(name: str, gib: int) -> Part:
    return Part(f"volume: {name}", prices.others()["volume"], gib, gib)


def _pool(name: str, pool: Pool) -> Part:
    return Part(f"{name}, {pool.plan.key}", prices.plans()[pool.plan.key], pool.least, pool.most)
