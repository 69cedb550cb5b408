"""Our namespaces, each with default-deny policies and with what is needed by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names, policies
from nearfar_infra.objects import declare, named
from nearfar_infra.peers import Allow
from nearfar_infra.settings import Settings

# How far the API server lets pods go in a namespace. GPU drivers and node exporters need the host;
# charts' pods, and those that an operator makes, are not ours to promise the strictest for.
_PRIVILEGED = (names.GPU_OPERATOR, names.MONITORING)
_RESTRICTED = (names.SERVING, names.STORE, names.EDGE)


@dataclass(frozen=True, slots=True)
class NamespacesArgs:
    """`after` goes last when all is destroyed: it waits until no volume is left."""

    settings: Settings
    after: pulumi.Resource | None = None


class Namespaces(pulumi.ComponentResource):
    """`ready[name]` is the namespace's name once its policies are in force."""

    ready: dict[str, pulumi.Output[str]]

    def __init__(
        self, name: str, args: NamespacesArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:Namespaces", name, {}, opts)
        waits = [] if args.after is None else [args.after]
        rules = policies.rules(args.settings)
        self.ready = {}
        for called in policies.namespaces(args.settings):
            made = declare(
                called,
                namespace(called, level(called, args.settings)),
                ResourceOptions(parent=self, depends_on=waits),
            )
            inside = ResourceOptions(parent=made, depends_on=[made])
            in_force = [
                declare(f"{called}-{policy['metadata']['name']}", policy, inside)
                for policy in (
                    deny(called),
                    *(allow(rule) for rule in rules if rule.namespace == called),
                )
            ]
            # By names and not by ids: one more policy must not make the namespace unknown in a
            # preview, which would show everything in it as replaced.
            self.ready[called] = pulumi.Output.all(
                named(made), *(named(policy) for policy in in_force)
            ).apply(lambda known: str(known[0]))
        self.register_outputs({})


def level(called: str, settings: Settings) -> str:
    """The level of pod security (kubernetes.io, "Pod Security Standards") of a namespace.

    vLLM's snapshot needs CRIU, and that needs the host.
    """
    if called in _PRIVILEGED or (called == names.SERVING and settings.serving.snapshot):
        return "privileged"
    by_operator = called == names.EDGE and settings.edge.target == "spinkube"
    return "restricted" if called in _RESTRICTED and not by_operator else "baseline"


def namespace(called: str, pod_security: str) -> dict[str, Any]:
    """The namespace; the API server refuses pods beyond the level that its label names."""
    labels = names.labels("namespace") | {"pod-security.kubernetes.io/enforce": pod_security}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": called, "labels": labels},
    }


def deny(namespace: str) -> dict[str, Any]:
    """Nothing in and nothing out, for every pod of the namespace."""
    return _policy("default-deny", namespace, {"podSelector": {}, "policyTypes": list(_BOTH)})


def allow(rule: Allow) -> dict[str, Any]:
    """One exception, with its reason."""
    return _policy(rule.name, rule.namespace, rule.spec(), {"nearfar.dev/why": rule.why})


_BOTH = ("Ingress", "Egress")


def _policy(
    name: str, namespace: str, spec: dict[str, Any], notes: dict[str, str] | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": names.labels("policy"),
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata | ({"annotations": notes} if notes else {}),
        "spec": spec,
    }
