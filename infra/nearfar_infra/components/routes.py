"""A route for each flow of the table, by host, method and exact path; anything else is 404."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.components.ingress import RESOLVER, SECURE_PORT
from nearfar_infra.flows import Flow
from nearfar_infra.objects import declare
from nearfar_infra.settings import FrontSettings

API = "traefik.io/v1alpha1"


@dataclass(frozen=True, slots=True)
class RoutesArgs:
    """`ingress` brings the kinds of the objects below; `host` is the certificate's name."""

    namespace: pulumi.Input[str]
    settings: FrontSettings
    flows: tuple[Flow, ...]
    host: pulumi.Output[str]
    ingress: pulumi.Resource


class Routes(pulumi.ComponentResource):
    """`url` is the GPU half's address, https only."""

    url: pulumi.Output[str]

    def __init__(self, name: str, args: RoutesArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Routes", name, {}, opts)
        waited = ResourceOptions(parent=self, depends_on=[args.ingress])
        before: list[pulumi.Resource] = [
            declare(f"{name}-{kind}", _object("Middleware", kind, args, spec), waited)
            for kind, spec in middlewares(args.settings).items()
        ]
        tls = _object("TLSOption", "default", args, {"minVersion": "VersionTLS12"})
        before.append(declare(f"{name}-tls", tls, waited))
        after = ResourceOptions(parent=self, depends_on=before)
        for flow in args.flows:
            spec = args.host.apply(partial(route, flow, settings=args.settings))
            declare(f"{name}-{flow.name}", _object("IngressRoute", flow.name, args, spec), after)
        self.url = pulumi.Output.concat("https://", args.host)
        self.register_outputs({})


def middlewares(settings: FrontSettings) -> dict[str, dict[str, Any]]:
    """What every request passes. None of them buffers: a stream leaves as it comes."""
    found: dict[str, dict[str, Any]] = {
        "per-source": {
            "rateLimit": {
                "average": settings.requests_per_minute,
                "period": "1m",
                "burst": settings.requests_burst,
            }
        }
    }
    if settings.allowed_sources:
        found["sources"] = {"ipAllowList": {"sourceRange": list(settings.allowed_sources)}}
    return found


def route(flow: Flow, host: str, settings: FrontSettings) -> dict[str, Any]:
    """One flow as Traefik's rule; Traefik's own default would let any method and path through."""
    methods = " || ".join(f"Method(`{method}`)" for method in flow.methods)
    paths = " || ".join(f"Path(`{path}`)" for path in flow.paths) or "PathPrefix(`/`)"
    return {
        "entryPoints": [SECURE_PORT],
        "routes": [
            {
                "kind": "Rule",
                "match": f"Host(`{host}`) && ({methods}) && ({paths})",
                "middlewares": [{"name": kind} for kind in middlewares(settings)],
                "services": [
                    {
                        "name": flow.service,
                        "namespace": flow.namespace,
                        "port": flow.port,
                        # Every chunk leaves at once.
                        "responseForwarding": {"flushInterval": "1ms"},
                    }
                ],
            }
        ],
        "tls": {"certResolver": RESOLVER},
    }


def _object(
    kind: str, called: str, args: RoutesArgs, spec: pulumi.Input[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {
            "name": called,
            "namespace": args.namespace,
            "labels": names.labels("route"),
        },
        "spec": spec,
    }
