"""Embeddings on the CPU pool, for search at the edge."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class EmbeddingsArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str
    upstream_key: pulumi.Input[str]


class Embeddings(pulumi.ComponentResource):
    """Serves under flows.EMBEDDINGS_SERVICE."""

    ready: pulumi.Output[str]
