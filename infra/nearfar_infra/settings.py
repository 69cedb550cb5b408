"""The settings of one deployment as values; config.py makes them, rules.py says what fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gpu_backend.spec import ServingSpec
from nearfar_infra.plans import Plan

EdgeTarget = Literal["akamai-functions", "spinkube", "wasmtime", "none"]
WeightsFrom = Literal["volume", "stream"]


@dataclass(frozen=True, slots=True)
class Pool:
    """One node pool and its autoscaler's bounds."""

    plan: Plan
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`version` is major.minor; `api_allowed` are CIDRs."""

    label: str
    region: str
    version: str
    high_availability: bool
    api_allowed: tuple[str, ...]
    cpu: Pool
    gpu: Pool


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """`spec` is what every vLLM server serves, the gate not yet in it. `autoscale_max` 0: none."""

    spec: ServingSpec
    weight_bytes: int
    replicas: int
    autoscale_max: int
    scale_to_zero: bool
    weights: WeightsFrom
    snapshot: bool
    snapshot_image: str | None
    image_pre_pull: bool
    model_volume_gib: int
    storage_class: str
    hf_token: str | None = field(repr=False)
    embeddings: bool


@dataclass(frozen=True, slots=True)
class FrontSettings:
    """What stands before the cluster. Without `domain` the NodeBalancer's own name is used."""

    allowed_sources: tuple[str, ...]
    domain: str | None
    dns_zone: str | None
    dns_token: str | None = field(repr=False)
    acme_email: str
    acme_server: str
    requests_per_minute: int
    requests_burst: int


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """Where the edge half runs."""

    target: EdgeTarget
    app: str
    account: str | None
    registry: str | None
    registry_user: str | None
    registry_password: str | None = field(repr=False)
    replicas: int
    region: str
    tenant: str
    guardrails: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a deployment is told. `redis_url` None: Redis runs in the cluster."""

    cluster: ClusterSettings
    serving: ServingSettings
    front: FrontSettings
    edge: EdgeSettings
    key_generation: int
    redis_url: str | None = field(repr=False)
    monitoring: bool
    linode_api: str
    firewall_check: bool
    mirror: str | None
    pins: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The optional parts that these settings ask for; versions.toml names them."""
        serving = self.serving
        asked = {
            "redis": self.redis_url is None,
            "router": serving.replicas > 1 or serving.autoscale_max > 1,
            "keda": serving.autoscale_max > 0,
            "pre-pull": serving.image_pre_pull,
            "embeddings": serving.embeddings,
            "monitoring": self.monitoring,
            self.edge.target: self.edge.target != "none",
        }
        return tuple(part for part, wanted in asked.items() if wanted)
