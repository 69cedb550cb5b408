"""Nothing while it exists; its deletion waits until the cluster has no volume any more.

A claim is gone before its volume is: the volume is detached and deleted afterwards, by a controller
inside the cluster. If the cluster went first, the volume would stay, and stay on the bill.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nearfar_infra.plugin import kube
from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, wrong

_TYPES: Mapping[str, type] = {"kubeconfig": str, "seconds": int}
PATH = "/api/v1/persistentvolumes"
PAUSE_S = 3.0


@dataclass(frozen=True, slots=True)
class VolumesGone:
    """Inputs `kubeconfig` (secret) and `seconds`, how long the deletion waits."""

    sleep: Callable[[float], None] = time.sleep

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        return news, wrong(news, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        return Change(tuple(name for name in _TYPES if olds.get(name) != news.get(name)))

    def create(self, inputs: Values) -> Made:
        return Made("volumes-gone", inputs)

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        return news

    def delete(self, id_: str, outputs: Values) -> None:
        end = time.monotonic() + outputs["seconds"]
        left = self._left(outputs)
        while left and time.monotonic() < end:
            self.sleep(PAUSE_S)
            left = self._left(outputs)
        if left:
            raise KindError(
                f"The cluster still has volumes: {', '.join(left)}.",
                "look at them with kubectl get pv, then run destroy again; once the cluster is "
                "gone, `nearfar leftovers` lists what stayed.",
            )

    def _left(self, outputs: Values) -> list[str]:
        """Volumes that are deleted with their claims; kept ones are kept on purpose."""
        try:
            items = kube.read(outputs["kubeconfig"], PATH)["items"]
        except kube.Unreachable as away:
            return [f"(the API server does not answer: {away})"]
        return [
            item["metadata"]["name"]
            for item in items
            if item["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        ]
