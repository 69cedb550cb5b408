"""Every generated secret of a deployment: random, kept in the encrypted state, rotated at will."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.components.random_secret import RandomSecret

NAMES = (
    "upstream-key",
    "collector-token",
    "gate-secret",
    "edge-key-secret",
    "redis-gate",
    "redis-metrics",
    "redis-operator",
    "grafana",
)


@dataclass(frozen=True, slots=True)
class CredentialsArgs:
    """Another `generation` replaces every secret."""

    generation: int


class Credentials(pulumi.ComponentResource):
    """One attribute a secret; each is 43 characters of base64url (256 bits).

    API keys outlive one generation: the edge takes those of `edge_key_secret_previous` too.
    """

    def __init__(
        self, name: str, args: CredentialsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:Credentials", name, {}, opts)
        made = {
            key: RandomSecret(f"{name}-{key}", args.generation, pulumi.ResourceOptions(parent=self))
            for key in NAMES
        }
        self.upstream_key = made["upstream-key"].value
        self.collector_token = made["collector-token"].value
        self.gate_secret = made["gate-secret"].value
        self.edge_key_secret = made["edge-key-secret"].value
        self.edge_key_secret_previous = made["edge-key-secret"].previous
        self.redis_gate = made["redis-gate"].value
        self.redis_metrics = made["redis-metrics"].value
        self.redis_operator = made["redis-operator"].value
        self.grafana = made["grafana"].value
        self.register_outputs({})
