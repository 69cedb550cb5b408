"""The whole deployment, from top to bottom: cluster, front, what runs inside, the edge, one answer.

`program` is called by __main__.py (the Pulumi CLI) and by run.py (an inline program) alike.
"""

from __future__ import annotations

import pulumi
import pulumi_linode as linode
from pulumi import ResourceOptions

from nearfar_infra import flows, names
from nearfar_infra.components.cluster import Cluster, ClusterArgs
from nearfar_infra.components.credentials import Credentials, CredentialsArgs
from nearfar_infra.components.edge import Edge, EdgeArgs
from nearfar_infra.components.embeddings import Embeddings, EmbeddingsArgs
from nearfar_infra.components.engine import Engine, EngineArgs
from nearfar_infra.components.first_answer import FirstAnswer, FirstAnswerArgs
from nearfar_infra.components.front import Front, FrontArgs
from nearfar_infra.components.gpu_operator import GpuOperator, GpuOperatorArgs
from nearfar_infra.components.ingress import Ingress, IngressArgs
from nearfar_infra.components.monitoring import Monitoring, MonitoringArgs
from nearfar_infra.components.namespaces import Namespaces, NamespacesArgs
from nearfar_infra.components.node_firewall import NodeFirewall, NodeFirewallArgs
from nearfar_infra.components.redis import Redis, RedisArgs
from nearfar_infra.components.scaling import Scaling, ScalingArgs
from nearfar_infra.outputs import Outputs
from nearfar_infra.settings import Settings
from nearfar_infra.sources import Sources
