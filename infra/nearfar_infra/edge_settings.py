"""What the deployed edge is told: its route table and its settings, in Spin's names.

docs/configuration.md describes each; what is not named here keeps its default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from edge_frontend import settings
from gpu_backend.spec import ServingSpec

# Akamai Functions ends a request after this long (techdocs.akamai.com, "Quotas and limits").
FUNCTIONS_DEADLINE_MS = 30_000
UPSTREAM = "gpu"


@dataclass(frozen=True, slots=True)
class Told:
    """Everything the edge's settings follow from. `store` is a setting, not an address alone.

    `upstream` is where the GPU half is; `deadline_ms` 0: the host ends no request.
    """

    spec: ServingSpec
    upstream: str
    upstream_key: str = field(repr=False)
    key_secret: str = field(repr=False)
    key_secret_previous: str = field(repr=False)
    gate_secret: str = field(repr=False)
    store: str = field(repr=False)
    environment: str
    region: str
    guardrails: str
    deadline_ms: int = 0

    def variables(self) -> dict[str, str]:
        """Application variables of edge-frontend/spin.toml: name → value."""
        return {
            "routes": json.dumps(routes(self.spec, self.upstream), sort_keys=True),
            "upstream_keys": json.dumps({UPSTREAM: self.upstream_key}),
            "upstream_host": _origin(self.upstream),
            "key_secret": self.key_secret,
            "key_secret_previous": self.key_secret_previous,
            "gate_secret": self.gate_secret,
            "store": self.store,
            "environment": self.environment,
            "region": self.region,
            "guardrails": self.guardrails,
            "deadline_ms": str(self.deadline_ms),
        }


def routes(spec: ServingSpec, upstream: str) -> Mapping[str, Any]:
    """The table with one upstream and one model, as clients name it."""
    return {
        "version": f"{spec.served_name}@{spec.serving_hash}",
        "upstreams": {UPSTREAM: {"url": upstream, "kind": "vllm"}},
        "models": {
            spec.served_name: {
                "upstream": UPSTREAM,
                "model": spec.served_name,
                "revision": spec.revision,
                "context_tokens": spec.context_tokens,
                "serving_hash": spec.serving_hash,
            }
        },
    }


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The same settings as wasmtime takes them; what only Spin's manifest knows is left out."""
    known = settings.names()
    return {settings.variable(n): value for n, value in variables.items() if n in known and value}


def fingerprint(variables: Mapping[str, str], made_from: str = "") -> str:
    """10 hex digits that name these settings and what they are for. They reveal none of it: the
    secrets among them have 256 bits."""
    text = json.dumps([dict(variables), made_from], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
