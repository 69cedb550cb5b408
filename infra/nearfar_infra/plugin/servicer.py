"""Pulumi's provider protocol over the kinds: translates values, and errors into one line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.output import Unknown
from pulumi.runtime import rpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from nearfar_infra.plugin.kinds import UNKNOWN, Kind, KindError, Values

VERSION = "0.1.0"

R = TypeVar("R")


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the kinds of a table: type token → kind."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema='{"name": "nearfar", "version": "0.1.0"}')

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> Any:
        # Without these Pulumi hands secrets in clear, marks them again by their names, and takes
        # outputs for unknown in a preview.
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=False)

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Check(self, request: Any, context: Any) -> Any:
        news = _values(request.news)
        inputs, problems = _told(context, lambda: self._kind(request).check(news))
        failures = [
            provider_pb2.CheckFailure(property=name, reason=reason)
            for name, reason in problems.items()
        ]
        return provider_pb2.CheckResponse(inputs=_struct(inputs), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        olds, news = _values(request.old_inputs), _values(request.news)
        outputs = _values(request.olds)
        change = _told(context, lambda: self._kind(request).diff(outputs, olds or outputs, news))
        some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some if change.properties else none,
            diffs=list(change.properties),
            replaces=list(change.replaces),
        )

    def Create(self, request: Any, context: Any) -> Any:
        inputs = _values(request.properties)
        made = _told(context, lambda: self._kind(request).create(inputs))
        return provider_pb2.CreateResponse(id=made.id, properties=_struct(made.outputs))

    def Read(self, request: Any, context: Any) -> Any:
        outputs = _values(request.properties) or _values(request.inputs)
        found = _told(context, lambda: self._kind(request).read(request.id, outputs))
        if found is None:
            return provider_pb2.ReadResponse()
        inputs = request.inputs if found.inputs is None else _struct(found.inputs)
        return provider_pb2.ReadResponse(
            id=request.id, properties=_struct(found.outputs), inputs=inputs
        )

    def Update(self, request: Any, context: Any) -> Any:
        outputs, news = _values(request.olds), _values(request.news)
        made = _told(context, lambda: self._kind(request).update(request.id, outputs, news))
        return provider_pb2.UpdateResponse(properties=_struct(made))

    def Delete(self, request: Any, context: Any) -> Any:
        outputs = _values(request.properties)
        _told(context, lambda: self._kind(request).delete(request.id, outputs))
        return empty_pb2.Empty()

    def _kind(self, request: Any) -> Kind:
        token = request.urn.split("::")[2].rpartition("$")[2]
        if token not in self._kinds:
            raise KindError(f"This plugin has no resource {token}.", "use this checkout's plugin.")
        return self._kinds[token]


def _told(context: Any, call: Callable[[], R]) -> R:
    """Run a kind's method; its error becomes the one line that Pulumi shows."""
    try:
        return call()
    except KindError as error:
        _abort(context, str(error))
    except Exception as error:  # noqa: BLE001 - what comes here would be shown as a traceback
        # The text of a foreign exception may hold what it was given, secrets included.
        _abort(context, f"A fault in nearfar's plugin: {type(error).__name__}. Please report it.")


def _abort(context: Any, message: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError(message)  # abort raises; this is for the type checker


def _values(struct: struct_pb2.Struct) -> dict[str, Any]:
    found = rpc.deserialize_properties(struct, keep_unknowns=True)
    # The program names outputs among the inputs, without a value.
    return {
        name: _whole(value)
        for name, value in found.items()
        if value is not None and not name.startswith("__")
    }


def _whole(value: Any) -> Any:
    """Every number arrives as a float, whole ones too; what is not known yet as an object."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, Unknown):
        return UNKNOWN
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _struct(values: Values) -> struct_pb2.Struct:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(rpc.serialize_properties(dict(values), {}))
    finally:
        loop.close()
