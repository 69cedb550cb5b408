"""Traefik: where TLS ends and where sources are limited; routes.py says what it lets through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.objects import declare
from nearfar_infra.peers import NODEBALANCERS
from nearfar_infra.releases import release
from nearfar_infra.settings import FrontSettings
from nearfar_infra.sources import ImageRef, Sources

RESOLVER = "acme"
# The chart sets the other label of names.selector("traefik") itself.
_OURS = {"app.kubernetes.io/part-of": names.PROJECT}
SECURE_PORT = "websecure"
# A stream lasts as long as its answer. Go counts the reading of a request until its answer ends
# (golang/go 18447), so Traefik's own 60 s would cut every longer stream.
TIMEOUTS = {"readTimeout": "3600s", "writeTimeout": "0s", "idleTimeout": "300s"}
CLAIM = "acme"
DNS_SECRET = "dns-01"  # noqa: S105 - the name of a Secret


@dataclass(frozen=True, slots=True)
class IngressArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    settings: FrontSettings
    storage_class: str


class Ingress(pulumi.ComponentResource):
    """`ready` is what the front waits for; `target` are the labels of its pods."""

    ready: pulumi.Resource
    target: dict[str, str]

    def __init__(self, name: str, args: IngressArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Ingress", name, {}, opts)
        own = ResourceOptions(parent=self)
        needed = [declare(f"{name}-acme", claim(args), own)]
        if args.settings.dns_token is not None:
            needed.append(declare(f"{name}-dns", dns_secret(args), own))
        self.ready = release(
            "traefik",
            args.sources.chart("traefik"),
            args.namespace,
            values(args.settings, args.sources.image("traefik")),
            ResourceOptions(parent=self, depends_on=needed),
        )
        self.target = names.selector("traefik")
        self.register_outputs({})


def values(settings: FrontSettings, image: ImageRef) -> dict[str, Any]:
    """The chart's values: one copy, since certificates lie on a volume that one node mounts."""
    return {
        "image": {
            "registry": image.registry,
            "repository": image.repository,
            "tag": image.tag,
            "digest": image.digest,
        },
        "deployment": {"replicas": 1, "podLabels": _OURS},
        # Two at once would wait for each other: the volume is attached to one node.
        "updateStrategy": {"type": "Recreate"},
        "nodeSelector": names.on_pool(names.CPU_POOL),
        # Traefik refuses a file that its group may read, as a change at each mount would make it.
        "podSecurityContext": {"fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch"},
        "service": {"enabled": False},
        "ports": _ports(),
        "providers": {
            # A model server that starts is a 503, which the edge knows to wait for; without this
            # its route would be gone, and a 404 tells nobody to come back.
            "kubernetesCRD": {"allowCrossNamespace": True, "allowEmptyServices": True},
            "kubernetesIngress": {"enabled": False},
        },
        "ingressRoute": {"dashboard": {"enabled": False}},
        "api": {"dashboard": False},
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "persistence": {"enabled": True, "existingClaim": CLAIM, "path": "/data"},
        "certificatesResolvers": {RESOLVER: {"acme": _acme(settings)}},
        "env": _environment(settings),
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
    }


def _ports() -> dict[str, Any]:
    """One way in, TLS; plain HTTP does not even listen to the outside."""
    trusted = {"trustedIPs": [NODEBALANCERS.cidr]}
    return {
        "web": {"expose": {"default": False}},
        SECURE_PORT: {
            "expose": {"default": True},
            "http": {"tls": {"enabled": True, "certResolver": RESOLVER}},
            "proxyProtocol": trusted,
            "transport": {"respondingTimeouts": TIMEOUTS},
        },
    }


def _acme(settings: FrontSettings) -> dict[str, Any]:
    """DNS-01 where a domain is set; else the proof comes over port 443 itself."""
    proof: dict[str, Any] = (
        {"tlsChallenge": True}
        if settings.domain is None
        else {"dnsChallenge": {"provider": "linode"}}
    )
    return {
        "email": settings.acme_email,
        "caServer": settings.acme_server,
        "storage": "/data/acme.json",
        **proof,
    }


def _environment(settings: FrontSettings) -> list[dict[str, Any]]:
    if settings.dns_token is None:
        return []
    key = {"secretKeyRef": {"name": DNS_SECRET, "key": "token"}}
    return [{"name": "LINODE_TOKEN", "valueFrom": key}]


def claim(args: IngressArgs) -> dict[str, Any]:
    """Certificates outlive the pod: an authority gives out few a week for one name."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": CLAIM,
            "namespace": args.namespace,
            "labels": names.labels("traefik"),
            # It is bound when the pod that mounts it is scheduled, which is after this.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": args.storage_class,
            # Linode's smallest volume.
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


def dns_secret(args: IngressArgs) -> dict[str, Any]:
    """The token that may write the domain's records, for the proof of the certificate."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": DNS_SECRET,
            "namespace": args.namespace,
            "labels": names.labels("traefik"),
        },
        "stringData": {"token": pulumi.Output.secret(str(args.settings.dns_token))},
    }
