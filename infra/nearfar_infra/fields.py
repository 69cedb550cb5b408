"""Every key of the configuration: type, default and meaning. Pulumi.yaml says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["string", "integer", "boolean", "array"]
Value = str | int | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """One key. Without a default it must be set where `required`, and stands for nothing otherwise.

    `unset` is the number that says the same as leaving the key out: Pulumi wants a value for every
    key of a typed configuration.
    """

    key: str
    kind: Kind
    text: str
    default: Value | None = None
    required: bool = False
    secret: bool = False
    unset: int | None = None


_CLUSTER = (
    Field(
        "region", "string", "Linode region of the cluster; the GPU plan must exist there.", "us-ord"
    ),
    Field(
        "label",
        "string",
        "Name of the cluster, and of everything that is billed with it.",
        "nearfar",
    ),
    Field("kubernetesVersion", "string", "Kubernetes version of the cluster (LKE).", "1.35"),
    Field("highAvailability", "boolean", "Control plane in several copies (costs extra).", False),
    Field(
        "apiAllowed",
        "array",
        "Networks that may reach the Kubernetes API, as CIDR: your own address, and CI's.",
        required=True,
    ),
    Field("cpuPlan", "string", "Plan of the CPU pool's nodes.", "g6-standard-4"),
    Field("cpuNodesMin", "integer", "Fewest nodes of the CPU pool.", 2),
    Field("cpuNodesMax", "integer", "Most nodes of the CPU pool.", 3),
    Field("gpuPlan", "string", "Plan of the GPU pool's nodes.", "g2-gpu-rtx4000a1-m"),
    Field("gpuNodesMin", "integer", "Fewest nodes of the GPU pool; each is billed.", 1),
    Field("gpuNodesMax", "integer", "Most nodes of the GPU pool.", 1),
)
_SERVING = (
    Field(
        "profile",
        "string",
        "Serving profile of gpu_backend that the rest builds on.",
        "qwen2.5-7b-rtx4000ada",
    ),
    Field("model", "string", "Model of the hub in the profile's place; needs modelRevision too."),
    Field("modelRevision", "string", "Commit of that model; a branch is refused."),
    Field("modelConfig", "string", "Path of that model's config.json, for the memory budget."),
    Field("servedName", "string", "Name under which clients ask for that model."),
    Field("contextTokens", "integer", "Prompt plus answer, in tokens; 0: the profile's.", unset=0),
    Field("maxRunning", "integer", "Requests computed at once; 0: the profile's.", unset=0),
    Field("maxWaiting", "integer", "Requests that may wait besides; -1: the profile's.", unset=-1),
    Field(
        "gpuMemoryPercent", "integer", "Share of GPU memory for vLLM; 0: the profile's.", unset=0
    ),
    Field("replicas", "integer", "vLLM servers; each takes one GPU node.", 1),
    Field("autoscaleMax", "integer", "Most vLLM servers under load (KEDA); 0: no autoscaling.", 0),
    Field(
        "scaleToZero", "boolean", "Let KEDA take the last vLLM server away when nobody asks.", False
    ),
    Field(
        "weights",
        "string",
        "volume: fetched once onto a volume; stream: from the hub at each start.",
        "volume",
    ),
    Field(
        "snapshot",
        "boolean",
        "vLLM's snapshot for a fast start; the gate then runs in front.",
        False,
    ),
    Field(
        "snapshotImage",
        "string",
        "vLLM's image with CRIU and its CUDA plugin added, by digest; snapshot needs it.",
    ),
    Field(
        "imagePrePull",
        "boolean",
        "Pull vLLM's image onto each GPU node before it is needed.",
        False,
    ),
    Field("modelVolumeGib", "integer", "Size of the volume for weights and compile cache.", 40),
    Field("storageClass", "string", "Storage class of every volume.", "linode-block-storage"),
    Field("hfToken", "string", "Token of the model hub, for models that need one.", secret=True),
    Field(
        "embeddings", "boolean", "Serve embeddings on a CPU node, for search at the edge.", False
    ),
)
_FRONT = (
    Field(
        "allowedSources", "array", "Networks that may reach the GPU half, as CIDR; empty: all.", ()
    ),
    Field("domain", "string", "Host name of the GPU half; needs dnsZone, acmeEmail and dnsToken."),
    Field("dnsZone", "string", "Domain in Linode DNS that holds it."),
    Field(
        "dnsToken", "string", "Linode token that may write domains and nothing else.", secret=True
    ),
    Field("acmeEmail", "string", "Where the certificate authority writes to.", required=True),
    Field(
        "acmeServer",
        "string",
        "Directory of the certificate authority.",
        "https://acme-v02.api.letsencrypt.org/directory",
    ),
    Field("requestsPerMinute", "integer", "Requests a minute from one source at the ingress.", 600),
    Field("requestsBurst", "integer", "How many of them may come at once.", 100),
    Field("keyGeneration", "integer", "Raise it to replace every generated secret.", 1),
    Field(
        "redisUrl",
        "string",
        "A Redis 8 elsewhere, for the gates; not set: one in the cluster.",
        secret=True,
    ),
    Field("monitoring", "boolean", "Prometheus, Grafana and alerts in the cluster.", True),
)
_EDGE = (
    Field(
        "edgeTarget", "string", "akamai-functions, spinkube, wasmtime or none.", "akamai-functions"
    ),
    Field("edgeApp", "string", "Name of the edge application.", "nearfar"),
    Field("edgeAccount", "string", "Account of Akamai Functions, if the login has several."),
    Field(
        "edgeRegistry",
        "string",
        "Container repository that the edge is pushed to (spinkube, wasmtime).",
    ),
    Field("edgeRegistryUser", "string", "User of that registry, if it wants one."),
    Field("edgeRegistryPassword", "string", "That user's password or token.", secret=True),
    Field("edgeReplicas", "integer", "Copies of the edge in the cluster (spinkube, wasmtime).", 2),
    Field("edgeRegion", "string", "Name of the edge's place, for its records.", "edge"),
    Field("tenant", "string", "First tenant, whose API key is made.", "first"),
    Field("guardrails", "string", "Rules for requests and answers at the edge.", "none@1"),
)
_SOURCES = (
    Field(
        "linodeApi",
        "string",
        "Address of Linode's API, its version included.",
        "https://api.linode.com/v4",
    ),
    Field("firewallCheck", "boolean", "Ask Linode at the end whether both firewalls hold.", True),
    Field("mirror", "string", "http(s)://host/path that holds every chart and image (air-gapped)."),
    Field("pins", "string", "File with the images' digests, beside Pulumi.yaml.", "pins.toml"),
)

FIELDS: dict[str, Field] = {
    field.key: field for field in (*_CLUSTER, *_SERVING, *_FRONT, *_EDGE, *_SOURCES)
}
