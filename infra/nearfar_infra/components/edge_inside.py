"""The edge inside the cluster: a new version beside the old one, asked, then led to.

Order is everything: the new version's own Deployment, its trial, then the Service that the way in
leads to. An old version is deleted at the end of an `up` that came through, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from nearfar_infra import edge_settings, objects
from nearfar_infra.components.edge_args import MODEL, SPIN_STORE, EdgeArgs, fingerprint, told
from nearfar_infra.components.own import EdgeImage, SpinArtifact
from nearfar_infra.components.random_secret import RandomSecret
from nearfar_infra.components.spin_operator import SpinOperator, SpinOperatorArgs
from nearfar_infra.manifests import edge as shared
from nearfar_infra.manifests import edge_store, spin_edge, wasmtime_edge

Make = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class EdgeInsideArgs:
    edge: EdgeArgs
    api_key: Output[str]


class EdgeInside(pulumi.ComponentResource):
    """`tag` names the version that clients are led to."""

    tag: Output[str]

    def __init__(
        self, name: str, args: EdgeInsideArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:EdgeInside", name, {}, opts)
        self._asked, self._given = args.edge, args.edge.edge
        self._ours = ResourceOptions(parent=self)
        self._password = RandomSecret("edge-store-password", 1, self._ours).value
        store = self._store()
        by_wasmtime = self._given.target == "wasmtime"
        version = self._wasmtime(store) if by_wasmtime else self._spinkube(store)
        self._lead(args.api_key, version)
        self.register_outputs({})

    def _store(self) -> list[pulumi.Resource]:
        """The store, ready; its password stands in a Secret and nowhere else."""
        image = self._asked.sources.image(f"{self._given.target}-store").reference
        made = [
            self._declare("edge-store-config", edge_store.secret, self._password),
            self._declare("edge-store-data", edge_store.volume, self._asked.storage_class),
            self._declare("edge-store-name", edge_store.service),
        ]
        last = self._declare("edge-store", edge_store.deployment, image, after=made)
        return [*made, last]

    def _wasmtime(self, store: list[pulumi.Resource]) -> pulumi.Resource:
        image = EdgeImage(
            "edge-image",
            repository=str(self._given.registry),
            base=self._asked.sources.image("wasmtime-base").reference,
            user=self._given.registry_user or "",
            password=self._given.registry_password or "",
            plain=(self._asked.sources.mirror or "").startswith("http://"),
            opts=self._ours,
        )
        variables = told(self._asked, MODEL, self._store_url())
        settings = variables.apply(edge_settings.environment)
        self.tag = fingerprint(variables, image.reference)
        secret = self._tagged("edge-settings", shared.settings_secret, settings)
        # Which settings there are is no secret, and a Deployment does not have to be one.
        names = Output.unsecret(settings.apply(lambda known: dict.fromkeys(known, "")))
        return self._tagged(
            "edge-deployment",
            wasmtime_edge.deployment,
            image.reference,
            names,
            self._given.replicas,
            after=[secret, *self._pull_secret(), *store],
            private=self._private,
        )

    def _spinkube(self, store: list[pulumi.Resource]) -> pulumi.Resource:
        artifact = SpinArtifact(
            "edge-artifact",
            repository=str(self._given.registry),
            user=self._given.registry_user or "",
            password=self._given.registry_password or "",
            opts=self._ours,
        )
        operator = SpinOperator("spin", SpinOperatorArgs(self._asked.sources), self._ours)
        spin = self._asked.sources.image("spin").reference
        executor = self._declare("edge-executor", spin_edge.executor, spin, after=[operator])
        variables = told(self._asked, MODEL, SPIN_STORE)
        self.tag = fingerprint(variables, artifact.reference)
        kept = Output.all(variables, self._store_url()).apply(
            lambda known: {**known[0], spin_edge.STORE_KEY: known[1]}
        )
        secret = self._tagged("edge-settings", shared.settings_secret, kept)
        return self._tagged(
            "edge-app",
            spin_edge.app,
            artifact.reference,
            Output.unsecret(variables.apply(spin_edge.shown)),
            self._given.replicas,
            after=[executor, secret, *self._pull_secret(), *store],
            private=self._private,
        )

    def _lead(self, api_key: Output[str], version: pulumi.Resource) -> None:
        """Try the version, and lead clients to it."""
        image = self._asked.sources.image("python").reference
        served = self._asked.spec.served_name
        found = self._tagged("edge-candidate", shared.candidate, after=[version])
        key = self._tagged("edge-trial-key", shared.key_secret, api_key)
        trial = self._tagged("edge-trial", shared.trial, served, image, after=[found, key])
        self._declare("edge-budget", shared.disruption_budget)
        self._declare("edge-service", shared.service, self.tag, after=[trial])

    @property
    def _private(self) -> bool:
        return self._given.registry_user is not None

    def _pull_secret(self) -> list[pulumi.Resource]:
        if not self._private:
            return []
        words = (str(self._given.registry), self._given.registry_user)
        password = Output.secret(self._given.registry_password)
        return [self._declare("edge-registry", shared.pull_secret, *words, password)]

    def _store_url(self) -> Output[str]:
        both = Output.all(self._asked.namespace, self._password)
        return Output.secret(both.apply(lambda known: edge_store.url(*known)))

    def _tagged(
        self,
        name: str,
        make: Make,
        *given: Any,
        after: list[pulumi.Resource] | None = None,
        **rest: Any,
    ) -> pulumi.Resource:
        """Declare something that belongs to one version: its first argument is the tag."""
        return self._declared(name, make, (self.tag, self._asked.namespace, *given), after, rest)

    def _declare(
        self, name: str, make: Make, *given: Any, after: list[pulumi.Resource] | None = None
    ) -> pulumi.Resource:
        return self._declared(name, make, (self._asked.namespace, *given), after, {})

    def _declared(
        self,
        name: str,
        make: Make,
        given: tuple[Any, ...],
        after: list[pulumi.Resource] | None,
        rest: Mapping[str, Any],
    ) -> pulumi.Resource:
        manifest = Output.all(*given).apply(lambda known: make(*known, **rest))
        opts = ResourceOptions(parent=self, depends_on=after or [])
        return _later(name, make.__name__, manifest, opts)


# A manifest is known when what it is made from is; its kind and fields have to be known before.
_SHAPES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "secret": ("v1", "Secret", ("stringData",)),
    "settings_secret": ("v1", "Secret", ("stringData", "immutable")),
    "key_secret": ("v1", "Secret", ("stringData", "immutable")),
    "pull_secret": ("v1", "Secret", ("stringData", "type")),
    "volume": ("v1", "PersistentVolumeClaim", ("spec",)),
    "service": ("v1", "Service", ("spec",)),
    "candidate": ("v1", "Service", ("spec",)),
    "deployment": ("apps/v1", "Deployment", ("spec",)),
    "disruption_budget": ("policy/v1", "PodDisruptionBudget", ("spec",)),
    "trial": ("batch/v1", "Job", ("spec",)),
    "executor": (spin_edge.API, "SpinAppExecutor", ("spec",)),
    "app": (spin_edge.API, "SpinApp", ("spec",)),
}


def _later(
    name: str, make: str, manifest: Output[dict[str, Any]], opts: ResourceOptions
) -> pulumi.Resource:
    """Declare an object of which only the shape is known yet."""
    api, kind, keys = _SHAPES[make]
    # Names and labels are no secrets, whatever they were made beside.
    known = Output.unsecret(manifest.apply(lambda made: made["metadata"]))
    parts = ("name", "namespace", "labels", "annotations")
    fields = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {part: _field(known, part) for part in parts},
        **{key: _field(manifest, key) for key in keys},
    }
    declared: pulumi.Resource = objects.declare(name, fields, opts)
    return declared


def _field(made: Output[dict[str, Any]], key: str) -> Output[Any]:
    return made.apply(lambda known: known.get(key))
