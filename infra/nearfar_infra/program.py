"""The whole deployment, from top to bottom: cluster, front, what runs inside, the edge, one answer.

`program` is called by __main__.py (the Pulumi CLI) and by run.py (an inline program) alike.
"""

from __future__ import annotations

import pulumi
import pulumi_linode as linode
from pulumi import ResourceOptions

from nearfar_infra import flows, inside, names
from nearfar_infra.components.cluster import Cluster, ClusterArgs
from nearfar_infra.components.credentials import Credentials, CredentialsArgs
from nearfar_infra.components.edge import Edge, EdgeArgs
from nearfar_infra.components.first_answer import FirstAnswer, FirstAnswerArgs
from nearfar_infra.components.front import Front, FrontArgs
from nearfar_infra.components.ingress import Ingress, IngressArgs
from nearfar_infra.components.namespaces import Namespaces, NamespacesArgs
from nearfar_infra.components.node_firewall import NodeFirewall, NodeFirewallArgs
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
    provider = linode.Provider("linode", token=pulumi.Output.secret(token))
    at_linode = ResourceOptions(providers=[provider])
    credentials = Credentials("credentials", CredentialsArgs(settings.key_generation))
    cluster = Cluster("cluster", ClusterArgs(settings.cluster), at_linode)
    front = Front(
        "front",
        FrontArgs(
            settings.cluster.label, settings.cluster.region, cluster.cluster_id, settings.front
        ),
        at_linode,
    )
    within = ResourceOptions(providers=[cluster.provider])
    namespaces = Namespaces("namespaces", NamespacesArgs(settings), within)
    NodeFirewall("nodes", NodeFirewallArgs(sources), within)
    given = Given(settings, sources, namespaces, credentials, cluster.gpu_pool_id, within)
    ingress = _ingress(given, front)
    parts = inside.parts(given)
    if settings.edge.target == "none":
        return Outputs.of(settings, cluster, credentials, ingress, parts, None)
    edge = _edge(given, ingress, parts)
    return Outputs.of(settings, cluster, credentials, ingress, parts, edge)


def _ingress(given: Given, front: Front) -> Ingress:
    return Ingress(
        "ingress",
        IngressArgs(
            namespace=given.namespaces.ready[names.INGRESS],
            sources=given.sources,
            settings=given.settings.front,
            flows=flows.wanted(
                embeddings=given.settings.serving.embeddings, otlp=given.settings.monitoring
            ),
            host=front.host,
            nodebalancer_id=front.nodebalancer_id,
            firewall_id=front.firewall_id,
            storage_class=given.settings.serving.storage_class,
        ),
        given.opts,
    )


def _edge(given: Given, ingress: Ingress, parts: inside.Inside) -> Edge:
    """The edge, and the question that it has to answer before the deployment counts as done."""
    edge = Edge(
        "edge",
        EdgeArgs(
            namespace=given.namespaces.ready[names.EDGE],
            sources=given.sources,
            edge=given.settings.edge,
            spec=given.settings.serving.spec,
            upstream=ingress.url,
            upstream_key=given.credentials.upstream_key,
            gate_secret=given.credentials.gate_secret,
            key_secret=given.credentials.edge_key_secret,
            collector_token=given.credentials.collector_token if parts.monitoring else None,
            engine_ready=parts.engine.ready,
        ),
        given.opts,
    )
    FirstAnswer(
        "answer",
        FirstAnswerArgs(edge.url, edge.first_key, given.settings.serving.spec.served_name),
        ResourceOptions(depends_on=[edge]),
    )
    return edge
