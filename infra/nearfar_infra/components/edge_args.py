"""What every way of running the edge is given, and the settings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import Output

from gpu_backend.spec import ServingSpec
from nearfar_infra import edge_settings, flows, names
from nearfar_infra.edge_settings import Told
from nearfar_infra.settings import EdgeSettings
from nearfar_infra.sources import Sources

SPIN_STORE = "kv:default"
MODEL = f"http://{flows.MODEL_SERVICE}.{names.SERVING}.svc.cluster.local:{flows.MODEL_PORT}"


@dataclass(frozen=True, slots=True)
class EdgeArgs:
    """`public_url` is the ingress's address (https://host); `engine_ready` is only waited for.

    An edge outside the cluster forwards to `public_url`. One inside is reached there itself
    (flows.CLIENTS), and forwards to the Service of the model. `namespace` and `storage_class` are
    for that one.
    """

    namespace: pulumi.Input[str] | None
    sources: Sources
    edge: EdgeSettings
    spec: ServingSpec
    public_url: pulumi.Input[str]
    upstream_key: pulumi.Input[str]
    gate_secret: pulumi.Input[str]
    key_secret: pulumi.Input[str]
    key_secret_previous: pulumi.Input[str]
    engine_ready: pulumi.Input[str]
    storage_class: str = names.STORAGE_CLASS


def told(
    args: EdgeArgs, upstream: pulumi.Input[str], store: pulumi.Input[str], deadline_ms: int = 0
) -> Output[dict[str, str]]:
    """The edge's variables (secret), known once the engine answers."""
    stack, spec, edge = pulumi.get_stack(), args.spec, args.edge

    def made(known: list[str]) -> dict[str, str]:
        _, at, key, secret, previous, gate, kept = known
        return Told(
            spec=spec,
            upstream=at,
            upstream_key=key,
            key_secret=secret,
            key_secret_previous=previous,
            gate_secret=gate,
            store=kept,
            environment=stack,
            region=edge.region,
            guardrails=edge.guardrails,
            deadline_ms=deadline_ms,
        ).variables()

    keys = (args.upstream_key, args.key_secret, args.key_secret_previous, args.gate_secret)
    return Output.secret(Output.all(args.engine_ready, upstream, *keys, store).apply(made))


def fingerprint(
    variables: Output[dict[str, str]], made_from: pulumi.Input[str] = ""
) -> Output[str]:
    """A word that names these variables and tells nothing of them, so it is no secret."""
    both = Output.all(variables, made_from)
    return Output.unsecret(both.apply(lambda known: edge_settings.fingerprint(*known)))
