"""The plugin `pulumi-resource-linode`: serves the account until Pulumi ends it.

`NEARFAR_ENGINE_HOME` names the folder of the run; `server.json` in it says where the API server is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2

from nearfar_infra.plugin.kinds import Kind
from nearfar_infra.plugin.servicer import Servicer
from nearfar_infra.plugin.serving import serve

from ..api import Api
from .account import Account
from .cluster import Cluster, Pool, Server
from .nodes import Nodes
from .plain import Plain


class Kinds(Mapping[str, Kind]):
    """A kind for every resource of the SDK; made when it is asked for."""

    def __init__(self, account: Account, server: Server) -> None:
        self._account, self._server = account, server
        self._nodes = Nodes(Api(server.url, server.token, server.ca))

    def __getitem__(self, token: str) -> Kind:
        name = token.rpartition(":")[2]
        if name == "LkeCluster":
            return Cluster(token, self._account, self._server, self._nodes)
        if name == "LkeNodePool":
            return Pool(token, self._account, self._nodes)
        return Plain(token, self._account)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, token: object) -> bool:
        return str(token).startswith("linode:")


class Linode(Servicer):
    """The kinds, behind a provider that wants a token as the real one does."""

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """The version of the SDK whose types are checked."""
        return plugin_pb2.PluginInfo(version=version("pulumi-linode"))

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        given = rpc.deserialize_properties(request.news, keep_unknowns=True)
        if given.get("token") or os.environ.get("LINODE_TOKEN"):
            return provider_pb2.CheckResponse(inputs=request.news)
        reason = "The Linode token must be set: `pulumi config set --secret linode:token`."
        failure = provider_pb2.CheckFailure(property="token", reason=reason)
        return provider_pb2.CheckResponse(inputs=request.news, failures=[failure])

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Every domain that is asked for is there."""
        asked = rpc.deserialize_properties(request.args)
        answer = struct_pb2.Struct()
        if request.tok == "linode:index/getDomain:getDomain":
            answer.update({"id": 4242, "domain": asked["domain"], "type": "master"})
            return provider_pb2.InvokeResponse(**{"return": answer})
        failure = provider_pb2.CheckFailure(property="", reason=f"no function {request.tok}")
        return provider_pb2.InvokeResponse(failures=[failure])


def main() -> None:
    """Serve; the first line on stdout is the port."""
    home = Path(os.environ["NEARFAR_ENGINE_HOME"])
    server = Server(**json.loads((home / "server.json").read_text()))
    kinds = Kinds(Account(home / "account.json"), server)
    # The account is one file behind one lock: more calls at once would only wait for it.
    serve(Linode(kinds), workers=4)


if __name__ == "__main__":
    main()
