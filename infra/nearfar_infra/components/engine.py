"""vLLM on the GPU pool, with what fetches its weights and what guards it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

from nearfar_infra.components.model_store import ModelStore, ModelStoreArgs
from nearfar_infra.components.router import Router, RouterArgs
from nearfar_infra.manifests import Manifest, around, gate_source, libraries, snapshot, vllm
from nearfar_infra.manifests.model_files import Files
from nearfar_infra.manifests.start_up import StartUp, timeout
from nearfar_infra.manifests.vllm import Server
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
        secret = _secret(f"{name}-secret", args, own)
        gate = _config_map(f"{name}-gate", gate_source.config_map(args.namespace), own)
        waited = [secret, gate, *_beside(name, args, own)]
        store = ModelStore(
            f"{name}-files", ModelStoreArgs(args.serving, files, args.gpu_ready), own
        )
        server = Server(
            namespace=args.namespace,
            image=args.image,
            serving=args.serving,
            plan=args.plan,
            gate_config=gate_source.name(),
            files=files,
            secrets_version=_version(args),
            otlp_endpoint=args.otlp_endpoint,
        )
        deployed = _deployment(
            f"{name}-vllm", server, ResourceOptions(parent=self, depends_on=[*waited, store])
        )
        answering: list[pulumi.Resource] = [deployed]
        if args.routed:
            routing = RouterArgs(args.namespace, args.sources, args.serving.storage_class)
            answering.append(Router(f"{name}-router", routing, own))
        service = around.service(args.namespace, "router" if args.routed else "vllm")
        self.service = k8s.core.v1.Service(
            f"{name}-service",
            **_parts(service),
            opts=ResourceOptions(parent=self, depends_on=answering),
        )
        self.deployment = deployed.metadata.apply(lambda meta: str(meta.name))
        self.ready = self.service.metadata.apply(lambda meta: str(meta.name))
        self.register_outputs({"deployment": self.deployment, "ready": self.ready})


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


def _secret(name: str, args: EngineArgs, opts: ResourceOptions) -> k8s.core.v1.Secret:
    return k8s.core.v1.Secret(
        name,
        metadata={"name": vllm.SECRET, "namespace": args.namespace},
        string_data={
            "upstream-key": pulumi.Output.secret(args.upstream_key),
            "gate-secret": pulumi.Output.secret(args.gate_secret),
            "gate-redis": pulumi.Output.secret(args.redis_url),
        },
        opts=opts,
    )


def _config_map(name: str, manifest: Manifest, opts: ResourceOptions) -> k8s.core.v1.ConfigMap:
    return k8s.core.v1.ConfigMap(
        name,
        metadata=manifest["metadata"],
        data=manifest["data"],
        immutable=manifest["immutable"],
        opts=opts,
    )


def _beside(name: str, args: EngineArgs, opts: ResourceOptions) -> list[pulumi.Resource]:
    """Priority, disruption budget, the token of the hub, and the pre-pull where it is wanted."""
    first = around.priority()
    found: list[pulumi.Resource] = [
        k8s.scheduling.v1.PriorityClass(
            f"{name}-priority",
            metadata=first["metadata"],
            value=first["value"],
            preemption_policy=first["preemptionPolicy"],
            description=first["description"],
            opts=opts,
        ),
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-budget", **_parts(around.disruption_budget(args.namespace)), opts=opts
        ),
    ]
    if args.serving.hf_token:
        token = pulumi.Output.secret(args.serving.hf_token)
        found.append(
            k8s.core.v1.Secret(
                f"{name}-hub",
                metadata={"name": HF_SECRET, "namespace": args.namespace},
                string_data={"token": token},
                opts=opts,
            )
        )
    if args.serving.image_pre_pull:
        pause = args.sources.image("pause").reference
        pulled = around.pre_pull(args.namespace, args.image, pause)
        k8s.apps.v1.DaemonSet(f"{name}-pre-pull", **_parts(pulled), opts=opts)
    return found


def _deployment(name: str, server: Server, opts: ResourceOptions) -> k8s.apps.v1.Deployment:
    """vLLM's Deployment; how many there are is KEDA's to say where it is used."""
    manifest = vllm.deployment(server)
    if server.serving.snapshot:
        manifest["spec"]["template"]["spec"] = snapshot.pod(server)
    scaled = ["spec.replicas"] if server.serving.autoscale_max else None
    patience = timeout(server.budget.await_s)
    waits = ResourceOptions(
        custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience),
        ignore_changes=scaled,
    )
    return k8s.apps.v1.Deployment(name, **_parts(manifest), opts=ResourceOptions.merge(opts, waits))


def _parts(manifest: Manifest) -> Manifest:
    return {"metadata": manifest["metadata"], "spec": manifest["spec"]}
