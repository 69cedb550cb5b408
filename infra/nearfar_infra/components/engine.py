"""vLLM on the GPU pool, with what fetches its weights and what guards it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.components.model_store import ModelStore, ModelStoreArgs
from nearfar_infra.components.router import Router, RouterArgs
from nearfar_infra.manifests import Manifest, around, gate_source, libraries, snapshot, vllm
from nearfar_infra.manifests.model_files import Files
from nearfar_infra.manifests.start_up import StartUp, timeout
from nearfar_infra.manifests.vllm import Server
from nearfar_infra.objects import declare, named
from nearfar_infra.plans import Plan
from nearfar_infra.settings import ServingSettings
from nearfar_infra.sources import Sources

HF_SECRET = "model-hub"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """`redis_url` is the gate's; `otlp_endpoint` None: no traces. `gpu_ready` is only waited for.

    `plan` is the GPU pool's: a server takes all GPUs of a node, and its share of the rest.
    """

    namespace: pulumi.Input[str]
    sources: Sources
    serving: ServingSettings
    plan: Plan
    upstream_key: pulumi.Input[str]
    gate_secret: pulumi.Input[str]
    redis_url: pulumi.Input[str]
    otlp_endpoint: pulumi.Input[str] | None
    gpu_ready: pulumi.Input[str]

    @property
    def routed(self) -> bool:
        """Whether a router stands in front: there are, or may be, several servers."""
        return max(self.serving.replicas, self.serving.autoscale_max) > 1

    @property
    def image(self) -> str:
        """vLLM's image by its digest; a snapshot needs one of the operator's own."""
        own = self.serving.snapshot_image if self.serving.snapshot else None
        return own or self.sources.image("vllm").reference


class Engine(pulumi.ComponentResource):
    """Serves under flows.MODEL_SERVICE, router and gate included; `ready` once a pod is ready."""

    deployment: pulumi.Output[str]
    ready: pulumi.Output[str]

    def __init__(self, name: str, args: EngineArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Engine", name, {}, opts)
        own = ResourceOptions(parent=self)
        files = files_of(args)
        waited = [
            declare(f"{name}-{part}", manifest, own) for part, manifest in _beside(args).items()
        ]
        store = ModelStore(
            f"{name}-files", ModelStoreArgs(args.serving, files, args.gpu_ready), own
        )
        after = ResourceOptions(parent=self, depends_on=[*waited, store])
        deployed = _deployment(f"{name}-vllm", server_of(args, files), after)
        answering: list[pulumi.Resource] = [deployed]
        if args.routed:
            routing = RouterArgs(args.namespace, args.sources, args.serving.storage_class)
            answering.append(Router(f"{name}-router", routing, own))
        service = declare(
            f"{name}-service",
            around.service(args.namespace, "router" if args.routed else "vllm"),
            ResourceOptions(parent=self, depends_on=answering),
        )
        self.deployment = named(deployed)
        self.ready = named(service)
        self.register_outputs({"deployment": self.deployment, "ready": self.ready})


def server_of(args: EngineArgs, files: Files) -> Server:
    """The values that vLLM's Deployment is made of."""
    return Server(
        namespace=args.namespace,
        image=args.image,
        serving=args.serving,
        plan=args.plan,
        gate_config=gate_source.name(),
        files=files,
        secrets_version=_version(args),
        otlp_endpoint=args.otlp_endpoint,
    )


def files_of(args: EngineArgs) -> Files:
    """What has to be on the volume, or on the node's own disk, before vLLM starts."""
    streamed = args.serving.weights == "stream"
    return Files(
        namespace=args.namespace,
        image=args.image,
        spec=args.serving.spec,
        libraries=libraries.some(libraries.gate_lock(), libraries.GATE),
        budget=StartUp(args.serving.weight_bytes, streamed=streamed),
        with_weights=True,
        hf_secret=HF_SECRET if args.serving.hf_token else None,
        mirror=args.sources.mirror,
    )


def _version(args: EngineArgs) -> pulumi.Output[str]:
    """Changes with any secret, so that the pods are started anew; it tells nothing of them."""
    together = pulumi.Output.all(args.upstream_key, args.gate_secret, args.redis_url)
    hashed = together.apply(
        lambda parts: hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    )
    return pulumi.Output.unsecret(hashed)


def _secret(args: EngineArgs) -> Manifest:
    """The three secrets of the pods."""
    return _hidden(
        vllm.SECRET,
        args.namespace,
        {
            "upstream-key": args.upstream_key,
            "gate-secret": args.gate_secret,
            "gate-redis": args.redis_url,
        },
    )


def _hidden(
    name: str, namespace: pulumi.Input[str], values: dict[str, pulumi.Input[str]]
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": names.labels("vllm")},
        "stringData": {key: pulumi.Output.secret(value) for key, value in values.items()},
    }


def _beside(args: EngineArgs) -> dict[str, Manifest]:
    """Priority, disruption budget, secrets, the gate's sources, the pre-pull where wanted."""
    found = {
        "secret": _secret(args),
        "gate": gate_source.config_map(args.namespace),
        "priority": around.priority(),
        "budget": around.disruption_budget(args.namespace),
    }
    if args.serving.hf_token:
        found["hub"] = _hidden(HF_SECRET, args.namespace, {"token": args.serving.hf_token})
    if args.serving.image_pre_pull:
        pause = args.sources.image("pause").reference
        found["pre-pull"] = around.pre_pull(args.namespace, args.image, pause)
    return found


def _deployment(name: str, server: Server, opts: ResourceOptions) -> Any:
    """vLLM's Deployment; how many there are is KEDA's to say where it is used."""
    manifest = vllm.deployment(server)
    if server.serving.snapshot:
        manifest["spec"]["template"]["spec"] = snapshot.pod(server)
    patience = timeout(server.budget.await_s)
    waits = ResourceOptions(
        custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        ignore_changes=["spec.replicas"] if server.serving.autoscale_max else None,
    )
    return declare(name, manifest, ResourceOptions.merge(opts, waits))
