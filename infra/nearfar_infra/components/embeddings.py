"""Embeddings on the CPU pool, for search at the edge."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra.manifests import embeddings
from nearfar_infra.objects import declare, named
from nearfar_infra.sources import Sources

_READY_WITHIN = "30m"


@dataclass(frozen=True, slots=True)
class EmbeddingsArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str
    upstream_key: pulumi.Input[str]


class Embeddings(pulumi.ComponentResource):
    """Serves under flows.EMBEDDINGS_SERVICE."""

    ready: pulumi.Output[str]

    def __init__(
        self, name: str, args: EmbeddingsArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:Embeddings", name, {}, opts)
        parts = embeddings.objects(
            args.namespace,
            args.sources.image("vllm-cpu").reference,
            args.storage_class,
            args.upstream_key,
            args.sources.mirror,
        )
        server = parts.pop("deployment")
        own = ResourceOptions(parent=self)
        needed = [declare(f"{name}-{part}", found, own) for part, found in parts.items()]
        patience = pulumi.CustomTimeouts(create=_READY_WITHIN, update=_READY_WITHIN)
        waits = ResourceOptions(parent=self, depends_on=needed, custom_timeouts=patience)
        self.ready = named(declare(name, server, waits))
        self.register_outputs({"ready": self.ready})
