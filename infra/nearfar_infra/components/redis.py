"""Redis 8 inside the cluster, for the gates; nothing outside ever reaches it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class RedisArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str
    gate_password: pulumi.Input[str]
    metrics_password: pulumi.Input[str]


class Redis(pulumi.ComponentResource):
    """`url` is what a gate is given: its own user, limited to its own keys (secret)."""

    url: pulumi.Output[str]
