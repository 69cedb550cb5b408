"""What runs inside the cluster for the GPU half: GPU, Redis, monitoring, vLLM, its scaling."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.components.credentials import Credentials
from nearfar_infra.components.embeddings import Embeddings, EmbeddingsArgs
from nearfar_infra.components.engine import Engine, EngineArgs
from nearfar_infra.components.gpu_operator import GpuOperator, GpuOperatorArgs
from nearfar_infra.components.monitoring import Monitoring, MonitoringArgs
from nearfar_infra.components.namespaces import Namespaces
from nearfar_infra.components.redis import Redis, RedisArgs
from nearfar_infra.components.scaling import Scaling, ScalingArgs
from nearfar_infra.settings import Settings
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class Given:
    """What every part below is made from; `opts` carries the cluster's provider."""

    settings: Settings
    sources: Sources
    namespaces: Namespaces
    credentials: Credentials
    gpu_pool_id: pulumi.Output[str]
    opts: ResourceOptions


@dataclass(frozen=True, slots=True)
class Inside:
    """The parts that others need; `monitoring` and `embeddings` only where asked for."""

    engine: Engine
    monitoring: Monitoring | None
    embeddings: Embeddings | None


def parts(given: Given) -> Inside:
    """Declare the parts in the order in which they wait for each other."""
    gpu = GpuOperator(
        "gpu",
        GpuOperatorArgs(
            given.namespaces.ready[names.GPU_OPERATOR], given.sources, given.gpu_pool_id
        ),
        given.opts,
    )
    monitoring = _monitoring(given) if given.settings.monitoring else None
    engine = _engine(given, gpu, monitoring)
    if given.settings.serving.autoscale_max > 0 and monitoring is not None:
        _scaling(given, engine, monitoring)
    embeddings = _embeddings(given) if given.settings.serving.embeddings else None
    return Inside(engine, monitoring, embeddings)


def _monitoring(given: Given) -> Monitoring:
    return Monitoring(
        "monitoring",
        MonitoringArgs(
            namespace=given.namespaces.ready[names.MONITORING],
            sources=given.sources,
            storage_class=given.settings.serving.storage_class,
            cluster=given.settings.cluster.label,
            collector_token=given.credentials.collector_token,
            grafana_password=given.credentials.grafana,
        ),
        given.opts,
    )


def _redis_url(given: Given) -> pulumi.Output[str]:
    """The address of the gates' Redis: the operator's own, or that of one in the cluster."""
    if given.settings.redis_url is not None:
        return pulumi.Output.secret(given.settings.redis_url)
    redis = Redis(
        "redis",
        RedisArgs(
            namespace=given.namespaces.ready[names.STORE],
            sources=given.sources,
            storage_class=given.settings.serving.storage_class,
            gate_password=given.credentials.redis_gate,
            metrics_password=given.credentials.redis_metrics,
            operator_password=given.credentials.redis_operator,
        ),
        given.opts,
    )
    return redis.url


def _engine(given: Given, gpu: GpuOperator, monitoring: Monitoring | None) -> Engine:
    return Engine(
        "engine",
        EngineArgs(
            namespace=given.namespaces.ready[names.SERVING],
            sources=given.sources,
            serving=given.settings.serving,
            plan=given.settings.cluster.gpu.plan,
            upstream_key=given.credentials.upstream_key,
            gate_secret=given.credentials.gate_secret,
            redis_url=_redis_url(given),
            otlp_endpoint=monitoring.otlp_endpoint if monitoring else None,
            gpu_ready=gpu.ready,
        ),
        given.opts,
    )


def _scaling(given: Given, engine: Engine, monitoring: Monitoring) -> None:
    Scaling(
        "scaling",
        ScalingArgs(
            namespace=given.namespaces.ready[names.KEDA],
            serving_namespace=given.namespaces.ready[names.SERVING],
            sources=given.sources,
            serving=given.settings.serving,
            deployment=engine.deployment,
            prometheus_url=monitoring.prometheus_url,
        ),
        given.opts,
    )


def _embeddings(given: Given) -> Embeddings:
    return Embeddings(
        "embeddings",
        EmbeddingsArgs(
            namespace=given.namespaces.ready[names.SERVING],
            sources=given.sources,
            storage_class=given.settings.serving.storage_class,
            upstream_key=given.credentials.upstream_key,
        ),
        given.opts,
    )
