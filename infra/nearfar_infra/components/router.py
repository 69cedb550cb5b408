"""vllm-router before several vLLM servers."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

from nearfar_infra.manifests import router
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class RouterArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str


class Router(pulumi.ComponentResource):
    """One router, which finds vLLM's pods by their labels."""

    def __init__(self, name: str, args: RouterArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Router", name, {}, opts)
        own = ResourceOptions(parent=self)
        account, role, binding = router.access(args.namespace)
        scripts, claim = (
            router.scripts(args.namespace),
            router.claim(args.namespace, args.storage_class),
        )
        needed: list[pulumi.Resource] = [
            k8s.core.v1.ServiceAccount(f"{name}-account", metadata=account["metadata"], opts=own),
            k8s.rbac.v1.Role(
                f"{name}-role", metadata=role["metadata"], rules=role["rules"], opts=own
            ),
            k8s.rbac.v1.RoleBinding(
                f"{name}-binding",
                metadata=binding["metadata"],
                role_ref=binding["roleRef"],
                subjects=binding["subjects"],
                opts=own,
            ),
            k8s.core.v1.ConfigMap(
                f"{name}-scripts",
                metadata=scripts["metadata"],
                data=scripts["data"],
                immutable=True,
                opts=own,
            ),
            k8s.core.v1.PersistentVolumeClaim(
                f"{name}-files", metadata=claim["metadata"], spec=claim["spec"], opts=own
            ),
        ]
        manifest = router.deployment(
            args.namespace, args.sources.image("python").reference, args.sources.mirror
        )
        k8s.apps.v1.Deployment(
            name,
            metadata=manifest["metadata"],
            spec=manifest["spec"],
            opts=ResourceOptions(parent=self, depends_on=needed),
        )
        self.register_outputs({})
