"""Objects against the API's own schemas, in the version that the cluster has."""

from __future__ import annotations

from typing import Any

import kubernetes_validate

from nearfar_infra.fields import FIELDS

VERSION = str(FIELDS["kubernetesVersion"].default)
# Kinds that charts bring: the API server itself has no schema of them.
_BROUGHT = (
    "monitoring.coreos.com/",
    "keda.sh/",
    "traefik.io/",
    "cert-manager.io/",
    "core.spinkube",
)


def check(manifest: dict[str, Any]) -> None:
    """Strictly: a field that the API does not know is a fault, not something that it drops."""
    if not str(manifest["apiVersion"]).startswith(_BROUGHT):
        kubernetes_validate.validate(manifest, VERSION, strict=True)
