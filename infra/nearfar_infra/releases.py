"""Helm releases, all made the same way: pinned, waited for, cleaned up after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.helm.v3 import Release, ReleaseArgs, RepositoryOptsArgs

from nearfar_infra.sources import ChartRef


def release(
    name: str,
    chart: ChartRef,
    namespace: pulumi.Input[str],
    values: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    timeout_s: int = 600,
) -> Release:
    """Install one chart under `name` and wait until what it made is ready, `timeout_s` at most.

    A chart's objects are deleted by Helm, hooks included, when the release is.
    """
    # A chart in a container registry is one address; it has no repository that lists it.
    oci = chart.repository.startswith("oci://")
    args = ReleaseArgs(
        name=name,
        chart=f"{chart.repository}/{chart.name}" if oci else chart.name,
        version=chart.version,
        repository_opts=None if oci else RepositoryOptsArgs(repo=chart.repository),
        namespace=namespace,
        values=dict(values),
        timeout=timeout_s,
        cleanup_on_fail=True,
        max_history=3,
    )
    return Release(name, args, opts)
