"""From the raw configuration to Settings: everything is checked, and told, at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from gpu_backend.spec import ServingSpec
from nearfar_infra import rules, served, values
from nearfar_infra.errors import ConfigError
from nearfar_infra.plans import PLANS
from nearfar_infra.settings import (
    ClusterSettings,
    EdgeSettings,
    EdgeTarget,
    FrontSettings,
    Pool,
    ServingSettings,
    Settings,
    WeightsFrom,
)
from nearfar_infra.values import Values

_FOR_THE_SPEC = (
    *("profile", "gpuPlan", "model", "modelRevision", "servedName", "modelConfig"),
    *("contextTokens", "maxRunning", "maxWaiting", "gpuMemoryPercent"),
)


def load(raw: Mapping[str, str], *, root: Path) -> Settings:
    """Return the settings of these keys and texts; a relative path is meant from `root`.

    Keys are without the project's name; an array is JSON, or one value as it is.

    Raises:
        ConfigError: it names every unknown, missing and wrong key, and what cannot work together.
    """
    found = values.parse(raw)
    found = _add(found, rules.each(found))
    found = _add(found, rules.together(found))
    spec, weight_bytes = None, 0
    if found.sound(*_FOR_THE_SPEC):
        spec, weight_bytes, problems = served.of(found, root)
        found = _add(found, problems)
    if found.problems or spec is None:
        raise ConfigError(found.problems)
    return _settings(found, spec, weight_bytes)


def _add(found: Values, problems: Mapping[str, str]) -> Values:
    """The first problem of a key is the one that is told."""
    return replace(found, problems={**problems, **found.problems})


def _settings(found: Values, spec: ServingSpec, weight_bytes: int) -> Settings:
    return Settings(
        cluster=_cluster(found),
        serving=_serving(found, spec, weight_bytes),
        front=_front(found),
        edge=_edge(found),
        key_generation=found.number("keyGeneration"),
        redis_url=found.maybe("redisUrl"),
        monitoring=found.flag("monitoring"),
        linode_api=found.text("linodeApi"),
        firewall_check=found.flag("firewallCheck"),
        mirror=found.maybe("mirror"),
        pins=found.text("pins"),
    )


def _pool(found: Values, name: str) -> Pool:
    return Pool(
        PLANS[found.text(f"{name}Plan")],
        found.number(f"{name}NodesMin"),
        found.number(f"{name}NodesMax"),
    )


def _cluster(found: Values) -> ClusterSettings:
    return ClusterSettings(
        label=found.text("label"),
        region=found.text("region"),
        version=found.text("kubernetesVersion"),
        high_availability=found.flag("highAvailability"),
        api_allowed=found.listed("apiAllowed"),
        cpu=_pool(found, "cpu"),
        gpu=_pool(found, "gpu"),
    )


def _serving(found: Values, spec: ServingSpec, weight_bytes: int) -> ServingSettings:
    return ServingSettings(
        spec=spec,
        weight_bytes=weight_bytes,
        replicas=found.number("replicas"),
        autoscale_max=found.number("autoscaleMax"),
        scale_to_zero=found.flag("scaleToZero"),
        weights=cast("WeightsFrom", found.text("weights")),
        snapshot=found.flag("snapshot"),
        snapshot_image=found.maybe("snapshotImage"),
        image_pre_pull=found.flag("imagePrePull"),
        model_volume_gib=found.number("modelVolumeGib"),
        storage_class=found.text("storageClass"),
        hf_token=found.maybe("hfToken"),
        embeddings=found.flag("embeddings"),
    )


def _front(found: Values) -> FrontSettings:
    return FrontSettings(
        allowed_sources=found.listed("allowedSources"),
        domain=found.maybe("domain"),
        dns_zone=found.maybe("dnsZone"),
        dns_token=found.maybe("dnsToken"),
        acme_email=found.text("acmeEmail"),
        acme_server=found.text("acmeServer"),
        requests_per_minute=found.number("requestsPerMinute"),
        requests_burst=found.number("requestsBurst"),
    )


def _edge(found: Values) -> EdgeSettings:
    return EdgeSettings(
        target=cast("EdgeTarget", found.text("edgeTarget")),
        app=found.text("edgeApp"),
        account=found.maybe("edgeAccount"),
        registry=found.maybe("edgeRegistry"),
        registry_user=found.maybe("edgeRegistryUser"),
        registry_password=found.maybe("edgeRegistryPassword"),
        replicas=found.number("edgeReplicas"),
        region=found.text("edgeRegion"),
        tenant=found.text("tenant"),
        guardrails=found.text("guardrails"),
    )
