"""vllm-router before several vLLM servers."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra.manifests import router
from nearfar_infra.objects import declare
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
        parts = {
            "account": account,
            "role": role,
            "binding": binding,
            "scripts": router.scripts(args.namespace),
            "files": router.claim(args.namespace, args.storage_class),
        }
        needed = [declare(f"{name}-{part}", manifest, own) for part, manifest in parts.items()]
        declare(
            name,
            router.deployment(
                args.namespace, args.sources.image("python").reference, args.sources.mirror
            ),
            ResourceOptions(parent=self, depends_on=needed),
        )
        self.register_outputs({})
