"""The edge half: on Akamai Functions, by SpinKube, or as wasmtime in the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpu_backend.spec import ServingSpec
from nearfar_infra.settings import EdgeSettings
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class EdgeArgs:
    """`public_url` is the ingress's address (https://host); `engine_ready` is only waited for.

    An edge outside the cluster forwards to `public_url`. One inside is reached there itself
    (flows.CLIENTS), and forwards to the Service of the model. `namespace` is for that one.
    `collector_token` None: no monitoring.
    """

    namespace: pulumi.Input[str]
    sources: Sources
    edge: EdgeSettings
    spec: ServingSpec
    public_url: pulumi.Input[str]
    upstream_key: pulumi.Input[str]
    gate_secret: pulumi.Input[str]
    key_secret: pulumi.Input[str]
    collector_token: pulumi.Input[str] | None
    engine_ready: pulumi.Input[str]


class Edge(pulumi.ComponentResource):
    """`url` is where clients ask; `first_key` the first tenant's API key (secret)."""

    url: pulumi.Output[str]
    first_key: pulumi.Output[str]
