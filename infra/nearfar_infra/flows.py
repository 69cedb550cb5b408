"""What may come from the edge into the cluster: one table, and nothing beside it is reachable.

docs/deploy.md shows the same table; a test compares them. Redis is not in it: it stays inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nearfar_infra import names
from nearfar_infra.settings import Settings

Credential = Literal["upstream-key", "collector-token", "api-key"]


@dataclass(frozen=True, slots=True)
class Flow:
    """One flow. Its host is the ingress's; allowed sources are the setting `allowedSources`.

    `paths` are exact, none: all. The credential is a bearer token that the service itself checks;
    `service` and `port` are inside `namespace`.
    """

    name: str
    methods: tuple[str, ...]
    paths: tuple[str, ...]
    credential: Credential
    namespace: str
    service: str
    port: int


# The Service that stands for the model: vLLM with the gate in it, or the router or gate before it.
# It is never called "vllm": Kubernetes would set VLLM_PORT in every pod of the namespace.
MODEL_SERVICE = "model"
MODEL_PORT = 8000
# Where vLLM listens when the gate stands before it in the same pod.
ENGINE_PORT = 8001
EMBEDDINGS_SERVICE = "embeddings"
EMBEDDINGS_PORT = 8000
COLLECTOR_SERVICE = "collector"
COLLECTOR_PORT = 4318
COLLECTOR_GRPC_PORT = 4317
EDGE_SERVICE = "edge"
EDGE_PORT = 3000
REDIS_SERVICE = "redis"
REDIS_PORT = 6379

CHAT = Flow(
    "chat",
    ("GET", "POST"),
    ("/v1/chat/completions", "/v1/models"),
    "upstream-key",
    names.SERVING,
    MODEL_SERVICE,
    MODEL_PORT,
)
EMBEDDINGS = Flow(
    "embeddings",
    ("POST",),
    ("/v1/embeddings",),
    "upstream-key",
    names.SERVING,
    EMBEDDINGS_SERVICE,
    EMBEDDINGS_PORT,
)
OTLP = Flow(
    "otlp",
    ("POST",),
    ("/v1/traces", "/v1/metrics"),
    "collector-token",
    names.MONITORING,
    COLLECTOR_SERVICE,
    COLLECTOR_PORT,
)

# An edge inside the cluster is reached in their place, and asks the others from inside.
CLIENTS = Flow(
    "clients",
    ("GET", "POST", "PUT", "DELETE", "OPTIONS"),
    (),
    "api-key",
    names.EDGE,
    EDGE_SERVICE,
    EDGE_PORT,
)

FLOWS = (CHAT, EMBEDDINGS, OTLP, CLIENTS)


def exposed(settings: Settings) -> tuple[Flow, ...]:
    """The flows of one deployment: what is not served is not reachable either."""
    if settings.edge.target in ("spinkube", "wasmtime"):
        return (CLIENTS,)
    asked = {
        CHAT: True,
        EMBEDDINGS: settings.serving.embeddings,
        OTLP: settings.monitoring,
    }
    return tuple(flow for flow, wanted in asked.items() if wanted)
