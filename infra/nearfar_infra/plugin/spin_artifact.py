"""The edge component in a container registry as Spin's own kind of artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nearfar_infra.plugin import component, spin
from nearfar_infra.plugin.kinds import Change, Found, Made, Values, changed, wrong
from nearfar_infra.plugin.oci import Reference, Registry
from nearfar_infra.plugin.spin import Login

_TYPES: Mapping[str, type] = {
    "repository": str,
    "user": str,
    "password": str,
    "labels": list,
    "component": str,
}


@dataclass(frozen=True, slots=True)
class SpinArtifact:
    """`repository` to push to, `user` and `password` (secret) of the registry, `labels` of
    key-value stores. `component` is filled in. Outputs besides: `reference`.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        inputs = {"user": "", "password": "", "labels": ["default"], **news}
        inputs["component"] = component.source()
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        what = set(_TYPES) - {"user", "password"}
        return Change(changed({n: olds.get(n) for n in what}, {n: news.get(n) for n in what}))

    def create(self, inputs: Values) -> Made:
        return Made(inputs["repository"], self.update("", {}, inputs))

    def read(self, id_: str, outputs: Values) -> Found | None:
        reference = Reference.of(outputs["reference"])
        registry = Registry(reference.host, outputs["user"], outputs["password"])
        return Found(outputs) if registry.digest_of(reference) else None

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        # The tag is the source's hash: another component has another name.
        reference = f"{news['repository']}:{news['component'][:16]}"
        text, wasm = component.manifest(news["labels"]), component.spin_component()
        with spin.folder(text, wasm, {}) as folder:
            spin.push(reference, folder, Login(news["user"], news["password"]))
        return {**news, "reference": reference}

    def delete(self, id_: str, outputs: Values) -> None:
        """The artifact stays in the registry, which is the operator's own."""
