"""The whole deployment, from top to bottom: cluster, front, what runs inside, the edge, one answer.

`program` is called by __main__.py (the Pulumi CLI) and by run.py (an inline program) alike.
"""

from __future__ import annotations

import pulumi
import pulumi_linode as linode
from pulumi import ResourceOptions

from nearfar_infra import flows, inside, names
from nearfar_infra.components.checks import FirewallsAttached, VolumesGone
from nearfar_infra.components.cluster import Cluster, ClusterArgs
from nearfar_infra.components.credentials import Credentials, CredentialsArgs
from nearfar_infra.components.edge import Edge, EdgeArgs
from nearfar_infra.components.first_answer import FirstAnswer, FirstAnswerArgs
from nearfar_infra.components.front import Front, FrontArgs
from nearfar_infra.components.ingress import SECURE_PORT, Ingress, IngressArgs
from nearfar_infra.components.namespaces import Namespaces, NamespacesArgs
from nearfar_infra.components.node_firewall import NodeFirewall, NodeFirewallArgs
from nearfar_infra.components.routes import Routes, RoutesArgs
from nearfar_infra.inside import Given
from nearfar_infra.outputs import Outputs
from nearfar_infra.settings import Settings
from nearfar_infra.sources import Sources


def program(settings: Settings, sources: Sources, token: str) -> Outputs:
    """Declare every resource and return what the deployment tells.

    `token` is Linode's; it reaches the provider as a secret, and nothing else.

    Raises:
        PinsError: before any resource, when an image that is asked for has no digest.
    """
    sources.require(settings.parts)
    secret = pulumi.Output.secret(token)
    # The provider puts the version behind the address by itself.
    address, _, version = settings.linode_api.rpartition("/")
    provider = linode.Provider("linode", token=secret, url=address, api_version=version)
    at_linode = ResourceOptions(providers=[provider])
    credentials = Credentials("credentials", CredentialsArgs(settings.key_generation))
    cluster = Cluster("cluster", ClusterArgs(settings.cluster), at_linode)
    volumes = VolumesGone(
        "volumes", cluster.kubeconfig, ResourceOptions(depends_on=[cluster.provider])
    )
    within = ResourceOptions(providers=[cluster.provider, provider])
    namespaces = Namespaces("namespaces", NamespacesArgs(settings, volumes), within)
    given = Given(settings, sources, namespaces, credentials, cluster.gpu_pool_id, within)
    nodes = NodeFirewall("nodes", NodeFirewallArgs(sources), within)
    front, routes = _front(given)
    if settings.firewall_check:
        _check(settings, secret, cluster, nodes, front)
    parts = inside.parts(given)
    edge = None if settings.edge.target == "none" else _edge(given, routes, parts)
    return Outputs.of(settings, cluster, credentials, routes, parts, edge)


def _front(given: Given) -> tuple[Front, Routes]:
    """The way in: Traefik, the NodeBalancer before it, and what it lets through."""
    settings = given.settings
    namespace = given.namespaces.ready[names.INGRESS]
    ingress = Ingress(
        "ingress",
        IngressArgs(namespace, given.sources, settings.front, settings.serving.storage_class),
        given.opts,
    )
    front = Front(
        "front",
        FrontArgs(
            namespace=namespace,
            label=settings.cluster.label,
            settings=settings.front,
            target=ingress.target,
            target_port=SECURE_PORT,
            ingress_ready=ingress.ready,
        ),
        given.opts,
    )
    routes = Routes(
        "routes",
        RoutesArgs(namespace, settings.front, flows.exposed(settings), front.host, ingress.ready),
        given.opts,
    )
    return front, routes


def _check(
    settings: Settings,
    token: pulumi.Output[str],
    cluster: Cluster,
    nodes: NodeFirewall,
    front: Front,
) -> None:
    """Look whether Linode did what it was asked; a change of sources or pools is looked at anew."""
    pools = (settings.cluster.cpu, settings.cluster.gpu)
    FirewallsAttached(
        "firewalls",
        api=settings.linode_api,
        token=token,
        cluster_id=cluster.cluster_id,
        address=front.address,
        watched=[*settings.front.allowed_sources, *(f"{p.plan.key} {p.most}" for p in pools)],
        opts=ResourceOptions(depends_on=[nodes, front]),
    )


def _edge(given: Given, routes: Routes, parts: inside.Inside) -> Edge:
    """The edge, and the question that it has to answer before the deployment counts as done."""
    edge = Edge(
        "edge",
        EdgeArgs(
            namespace=given.namespaces.ready.get(names.EDGE),
            sources=given.sources,
            edge=given.settings.edge,
            spec=given.settings.serving.spec,
            public_url=routes.url,
            upstream_key=given.credentials.upstream_key,
            gate_secret=given.credentials.gate_secret,
            key_secret=given.credentials.edge_key_secret,
            key_secret_previous=given.credentials.edge_key_secret_previous,
            engine_ready=parts.engine.ready,
            storage_class=given.settings.serving.storage_class,
        ),
        given.opts,
    )
    FirstAnswer(
        "answer",
        FirstAnswerArgs(
            edge.url,
            edge.first_key,
            given.settings.serving.spec.served_name,
            given.credentials.edge_key_secret,
            edge.follows,
        ),
        ResourceOptions(depends_on=[edge]),
    )
    return edge
