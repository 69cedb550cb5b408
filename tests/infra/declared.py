"""A fake of the engine's side of Pulumi: it records every resource that a program declares.

Nothing is created. Outputs are the inputs and what the real providers fill in that others need
(LKE's kubeconfig in base64, a load balancer's address); ids are made of type and name.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, rpc

KUBECONFIG = "apiVersion: v1\nkind: Config\n# canary-kubeconfig\n"
CLUSTER_ID = "4711"
ADDRESS = "203.0.113.9"
HOSTNAME = "203-0-113-9.ip.linodeusercontent.com"
SECRET = "random-" + "x" * 36


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
        id_ = CLUSTER_ID if args.typ == _CLUSTER else f"{args.typ}/{args.name}"
        return id_, {**args.inputs, **_filled(args.typ, inputs)}

    def call(self, args: MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return ({"id": 77, **args.args} if args.token == _DOMAIN else {}), []


_OWN = {
    "nearfar:index:RandomSecret": {"value": SECRET, "previous": ""},
    "nearfar:index:ApiKey": {"key": f"nf_{SECRET}"},
    "nearfar:index:AkamaiApp": {"url": "https://edge.example", "component": "c0ffee"},
    "nearfar:index:EdgeImage": {"reference": f"registry.example/team/edge@sha256:{'e' * 64}"},
    "nearfar:index:SpinArtifact": {"reference": f"registry.example/team/edge@sha256:{'5' * 64}"},
    "nearfar:index:FirstAnswer": {"answer": "Hello."},
}
_CLUSTER = "linode:index/lkeCluster:LkeCluster"
_DOMAIN = "linode:index/getDomain:getDomain"


def _filled(type_: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a provider adds to the inputs."""
    if type_ == _CLUSTER:
        return {"kubeconfig": base64.b64encode(KUBECONFIG.encode()).decode()}
    if type_ in _OWN:
        return _OWN[type_]
    if type_ == "kubernetes:core/v1:Service" and inputs["spec"].get("type") == "LoadBalancer":
        entry = {"hostname": HOSTNAME, "ip": ADDRESS}
        return {"status": {"loadBalancer": {"ingress": [entry]}}}
    return {}


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

    def typed(self, type_: str) -> list[Declared]:
        """Every resource whose Pulumi type ends in this."""
        return [found for found in self.resources if found.type.endswith(type_)]

    def release(self, called: str) -> Declared:
        """The Helm release of that name."""
        found = [one for one in self.typed(":Release") if one.inputs["name"] == called]
        assert 1 == len(found), [one.inputs["name"] for one in self.typed(":Release")]
        return found[0]

    @property
    def manifests(self) -> list[dict[str, Any]]:
        """Every Kubernetes object."""
        return [found.inputs for found in self.resources if found.type.startswith("kubernetes:")]


def declare(
    build: Callable[[], object], *, preview: bool = False, recorder: Recorder | None = None
) -> Program:
    """Run a program against the recorder, and wait until all it declared has arrived.

    In a preview the ids and outputs of what does not exist yet are unknown, as with the engine.
    """
    recorder = recorder or Recorder()
    with _loops():
        pulumi.runtime.set_mocks(recorder, project="nearfar", stack="test", preview=preview)
        untyped: Any = pulumi.runtime.test
        untyped(build)()
    return Program(tuple(recorder.resources))


@contextmanager
def _loops() -> Iterator[None]:
    """Event loops for this thread and for Pulumi's workers, which would leave theirs open."""
    made: list[asyncio.AbstractEventLoop] = []

    def begin() -> None:
        made.append(asyncio.new_event_loop())
        asyncio.set_event_loop(made[-1])

    begin()
    try:
        with ThreadPoolExecutor(max_workers=8, initializer=begin) as workers:
            made[0].set_default_executor(workers)
            yield
    finally:
        asyncio.set_event_loop(None)
        for loop in made:
            loop.close()
