"""SpinKube's operator, and cert-manager for its webhooks."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names, objects
from nearfar_infra.manifests import Manifest, spin_edge
from nearfar_infra.releases import release
from nearfar_infra.sources import ImageRef, Sources


@dataclass(frozen=True, slots=True)
class SpinOperatorArgs:
    sources: Sources


class SpinOperator(pulumi.ComponentResource):
    """Whoever depends on it can make SpinApps."""

    def __init__(
        self, name: str, args: SpinOperatorArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:SpinOperator", name, {}, opts)
        ours = ResourceOptions(parent=self)
        certificates = release(
            "cert-manager",
            args.sources.chart("cert-manager"),
            names.CERT_MANAGER,
            certificate_values(args.sources),
            ours,
        )
        kinds = [
            objects.declare(
                f"{name}-{plural}", spin_edge.definition(kind, plural, status=True), ours
            )
            for kind, plural in (("SpinApp", "spinapps"), ("SpinAppExecutor", "spinappexecutors"))
        ]
        release(
            "spin-operator",
            args.sources.chart("spin-operator"),
            names.SPIN_OPERATOR,
            values(args.sources.image("spin-operator")),
            ResourceOptions(parent=self, depends_on=[certificates, *kinds]),
        )
        self.register_outputs({})


def values(image: ImageRef) -> Manifest:
    """The operator's chart knows a repository and a tag, no digest."""
    pinned = {"repository": f"{image.registry}/{image.repository}", "tag": image.pinned_tag}
    return {"controllerManager": {"manager": {"image": pinned}}}


def certificate_values(sources: Sources) -> Manifest:
    parts = {
        "image": "controller",
        "webhook": "webhook",
        "cainjector": "cainjector",
        "startupapicheck": "startupapicheck",
    }
    found: Manifest = {"crds": {"enabled": True, "keep": False}}
    for part, called in parts.items():
        image = sources.image(f"cert-manager-{called}")
        given = {
            "repository": f"{image.registry}/{image.repository}",
            "tag": image.tag,
            "digest": image.digest,
        }
        found[part] = given if part == "image" else {"image": given}
    return found
