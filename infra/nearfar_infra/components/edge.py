"""The edge half: on Akamai Functions, by SpinKube, or as wasmtime in the cluster."""

from __future__ import annotations

import pulumi
from pulumi import Output, ResourceOptions

from nearfar_infra.components.edge_args import SPIN_STORE, EdgeArgs, fingerprint, told
from nearfar_infra.components.edge_inside import EdgeInside, EdgeInsideArgs
from nearfar_infra.components.own import AkamaiApp, ApiKey
from nearfar_infra.edge_settings import FUNCTIONS_DEADLINE_MS

__all__ = ["Edge", "EdgeArgs"]

# The key-value store that the host of a Spin application makes by itself.
LABELS = ("default",)


class Edge(pulumi.ComponentResource):
    """`url` is where clients ask; `first_key` the first tenant's API key (secret).

    `follows` are words that change when the edge was changed: what asks it asks again then.
    """

    url: Output[str]
    first_key: Output[str]
    follows: Output[list[str]]

    def __init__(self, name: str, args: EdgeArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Edge", name, {}, opts)
        ours = ResourceOptions(parent=self)
        first = ApiKey("first-key", secret=args.key_secret, tenant=args.edge.tenant, opts=ours)
        self.first_key = first.key
        if args.edge.target == "akamai-functions":
            self._on_functions(args, ours)
        else:
            self._inside(args, ours)
        self.register_outputs({})

    def _on_functions(self, args: EdgeArgs, opts: ResourceOptions) -> None:
        variables = told(args, args.public_url, SPIN_STORE, FUNCTIONS_DEADLINE_MS)
        app = AkamaiApp(
            "edge-app",
            app=args.edge.app,
            account=args.edge.account or "",
            labels=list(LABELS),
            variables=variables,
            opts=opts,
        )
        self.url = app.url
        self.follows = Output.all(app.component, fingerprint(variables)).apply(list)

    def _inside(self, args: EdgeArgs, opts: ResourceOptions) -> None:
        inside = EdgeInside("edge-inside", EdgeInsideArgs(args, self.first_key), opts)
        self.url = Output.from_input(args.public_url)
        self.follows = inside.tag.apply(lambda tag: [tag])
