"""A fake of the engine's side of Pulumi: it records every resource that a program declares.

Nothing is created. Outputs are the inputs, ids are made of type and name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, rpc


@dataclass(frozen=True, slots=True)
class Declared:
    """One resource: its Pulumi type and name, and the inputs as they reach the provider.

    `secret` names the inputs that hold something marked as secret.
    """

    type: str
    name: str
    inputs: dict[str, Any] = field(repr=False)
    secret: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """The Kubernetes kind, or the last part of any other type."""
        return str(self.inputs.get("kind") or self.type.rpartition(":")[2])

    @property
    def called(self) -> str:
        """Its name in the cluster."""
        return str(self.inputs["metadata"]["name"])


class Recorder(Mocks):
    """Takes the place of the engine."""

    def __init__(self) -> None:
        self.resources: list[Declared] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        secret = frozenset(key for key, value in args.inputs.items() if _has_secret(value))
        inputs = {key: _clear(value) for key, value in args.inputs.items()}
        self.resources.append(Declared(args.typ, args.name, inputs, secret))
        return f"{args.typ}/{args.name}", dict(args.inputs)

    def call(self, args: MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {}, None


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and rpc._special_sig_key in value


def _has_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return _is_secret(value) or any(map(_has_secret, value.values()))
    return isinstance(value, list) and any(map(_has_secret, value))


def _clear(value: Any) -> Any:
    """A value without the marks around what is secret."""
    if _is_secret(value):
        return _clear(value["value"])
    if isinstance(value, dict):
        return {key: _clear(inner) for key, inner in value.items()}
    return [_clear(inner) for inner in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Program:
    """What was declared, in order."""

    resources: tuple[Declared, ...]

    def all(self, kind: str) -> list[Declared]:
        """Every resource of a kind."""
        return [found for found in self.resources if found.kind == kind]

    def one(self, kind: str, called: str | None = None) -> Declared:
        """The only resource of a kind (and of that name in the cluster)."""
        found = [one for one in self.all(kind) if called is None or one.called == called]
        assert 1 == len(found), [one.name for one in found]
        return found[0]

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """Every Kubernetes object."""
        return [found.inputs for found in self.resources if found.type.startswith("kubernetes:")]


def declare(build: Callable[[], object]) -> Program:
    """Run a program against the recorder, and wait until all it declared has arrived."""
    recorder = Recorder()
    pulumi.runtime.set_mocks(recorder, project="nearfar", stack="test", preview=False)

    @pulumi.runtime.test
    def run() -> None:
        build()

    run()
    return Program(tuple(recorder.resources))
