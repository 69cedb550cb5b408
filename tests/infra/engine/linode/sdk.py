"""Checks a resource's inputs against the argument types of the pulumi_linode SDK."""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import typing
from collections.abc import Mapping
from typing import Any

import pulumi_linode
from pulumi import _types

from nearfar_infra.plugin.kinds import UNKNOWN

Problems = dict[str, str]


def arguments(token: str) -> type:
    """The class of arguments of a resource, from its type token; KeyError where there is none."""
    name = token.rpartition(":")[2]
    found = getattr(pulumi_linode, name, None)
    if found is None or getattr(found, "__module__", "") == "":
        raise KeyError(f"pulumi_linode has no resource {token}")
    module = importlib.import_module(found.__module__)
    return typing.cast(type, getattr(module, f"{name}Args"))


def problems(cls: type, values: Mapping[str, Any], path: str = "") -> Problems:
    """Say what the SDK's types do not allow: property → why."""
    types = _types.input_type_types(cls)
    found = {
        f"{path}{name}": f"{cls.__name__} has no such argument"
        for name in values
        if name not in types
    }
    for name in _required(cls):
        if values.get(name) is None:
            found[f"{path}{name}"] = f"{cls.__name__} requires it"
    for name, value in values.items():
        if name in types and value is not None:
            found |= _value(types[name], value, f"{path}{name}")
    return found


def _required(cls: type) -> list[str]:
    """The arguments without a default, by their names on the wire."""
    names = _types.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls).parameters.values()
    return [names[p.name] for p in parameters if p.default is p.empty and p.name in names]


def _value(kind: Any, value: Any, path: str) -> Problems:
    kind = _types.unwrap_type(kind)
    origin = typing.get_origin(kind)
    if value == UNKNOWN:
        return {}
    if inspect.isclass(kind) and _types.is_input_type(kind):
        if not isinstance(value, Mapping):
            return {path: f"must be an object of {kind.__name__}"}
        return problems(kind, value, f"{path}.")
    if origin is collections.abc.Sequence:
        return _each(typing.get_args(kind)[0], value, path)
    if origin is collections.abc.Mapping:
        return _entries(typing.get_args(kind)[1], value, path)
    return (
        {} if _scalar(kind, value) else {path: f"{value!r} is no {getattr(kind, '__name__', kind)}"}
    )


def _each(kind: Any, value: Any, path: str) -> Problems:
    if not isinstance(value, list):
        return {path: "must be a list"}
    found: Problems = {}
    for index, item in enumerate(value):
        found |= _value(kind, item, f"{path}[{index}]")
    return found


def _entries(kind: Any, value: Any, path: str) -> Problems:
    if not isinstance(value, Mapping):
        return {path: "must be a map"}
    found: Problems = {}
    for name, item in value.items():
        found |= _value(kind, item, f"{path}.{name}")
    return found


def _scalar(kind: Any, value: Any) -> bool:
    """A number on the wire is a double: a whole one is an int too."""
    if kind is int:
        whole = isinstance(value, float) and value.is_integer()
        return whole or (isinstance(value, int) and not isinstance(value, bool))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) if kind in (str, bool) else True
