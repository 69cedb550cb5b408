"""The plugin as Pulumi meets it: a program that prints a port and speaks gRPC."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from fakes.http_edge import HttpEdge
from fakes.spin import Spin
from nearfar.checkout import here
from nearfar_infra.plugin.kinds import UNKNOWN

URN = "urn:pulumi:dev::nearfar::nearfar:edge:Akamai$nearfar:index:{kind}::edge"
LAUNCHER = here().root / "infra" / "plugin" / "pulumi-resource-nearfar"


@pytest.fixture
def plugin(spin: Spin) -> Iterator[Any]:
    """A stub of the started plugin."""
    with subprocess.Popen([LAUNCHER], stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
        process.terminate()
    assert 0 == process.returncode


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(values)
    return made


def urn(kind: str) -> str:
    return URN.format(kind=kind)


def test_an_app_goes_through_its_whole_life(
    plugin: Any, spin: Spin, edge: HttpEdge, inputs: dict[str, Any]
) -> None:
    configured = plugin.Configure(provider_pb2.ConfigureRequest())
    assert (False, False) == (configured.acceptSecrets, configured.supportsPreview)
    ours: Any = {"urn": urn("AkamaiApp")}

    news = plugin.Check(provider_pb2.CheckRequest(news=struct(inputs), **ours)).inputs
    made = plugin.Create(provider_pb2.CreateRequest(properties=news, **ours))
    assert edge.endpoint == made.properties["url"]

    old: Any = {"id": made.id, "olds": made.properties, "old_inputs": news, **ours}
    same = plugin.Diff(provider_pb2.DiffRequest(news=news, **old))
    assert provider_pb2.DiffResponse.DIFF_NONE == same.changes

    other = plugin.Check(
        provider_pb2.CheckRequest(news=struct({**inputs, "labels": ["x"]}), **ours)
    ).inputs
    change = plugin.Diff(provider_pb2.DiffRequest(news=other, **old))
    assert ["labels"] == list(change.diffs)
    updated = plugin.Update(provider_pb2.UpdateRequest(news=other, **old))

    read = plugin.Read(
        provider_pb2.ReadRequest(id=made.id, properties=updated.properties, inputs=other, **ours)
    )
    assert (made.id, other) == (read.id, read.inputs)
    plugin.Delete(provider_pb2.DeleteRequest(id=made.id, properties=updated.properties, **ours))
    gone = plugin.Read(provider_pb2.ReadRequest(id=made.id, properties=updated.properties, **ours))
    assert "" == gone.id
    assert {} == spin.apps


def test_an_error_is_one_line_and_no_traceback(
    plugin: Any, spin: Spin, inputs: dict[str, Any]
) -> None:
    spin.fail("aka app list", "you are not logged in")
    ours: Any = {"urn": urn("AkamaiApp")}
    news = plugin.Check(provider_pb2.CheckRequest(news=struct(inputs), **ours)).inputs
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(properties=news, **ours))
    message = caught.value.details()
    assert 1 == len(message.splitlines())
    assert "Next step: spin aka login" in message
    assert "Traceback" not in message


def test_wrong_inputs_are_named_before_anything_is_created(plugin: Any, spin: Spin) -> None:
    answer = plugin.Check(
        provider_pb2.CheckRequest(news=struct({"name": "x"}), urn=urn("AkamaiApp"))
    )
    assert [("variables", "must be set")] == [(f.property, f.reason) for f in answer.failures]
    assert [] == spin.calls


def test_a_resource_that_it_does_not_have_is_told(plugin: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Create(provider_pb2.CreateRequest(urn=urn("Nothing")))
    assert "no resource nearfar:index:Nothing" in caught.value.details()


def test_what_is_not_known_yet_is_a_change_and_no_mistake(
    plugin: Any, inputs: dict[str, Any]
) -> None:
    """As the engine asks in a preview: an unknown value in a map, whole numbers as floats."""
    ours: Any = {"urn": urn("AkamaiApp")}
    old = plugin.Check(provider_pb2.CheckRequest(news=struct(inputs), **ours)).inputs
    later = {**inputs, "variables": {**inputs["variables"], "routes": UNKNOWN}}
    checked = plugin.Check(provider_pb2.CheckRequest(news=struct(later), **ours))
    assert [] == list(checked.failures)
    asked: Any = {"id": "x", "olds": old, "old_inputs": old, **ours}
    assert ["variables"] == list(
        plugin.Diff(provider_pb2.DiffRequest(news=checked.inputs, **asked)).diffs
    )
