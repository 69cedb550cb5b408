"""Played parts of a cloud's cluster: load balancers, volumes, and the GPU's device plugin.

Each does what its real counterpart is seen to do from the API server, and puts what would be
billed into the account. They stop acting once the account has no cluster any more, as the real
ones do: what they did not remove by then stays in the account.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .api import Api, Object, Refused
from .balancers import balance, guard, remove, running
from .linode.account import Account
from .plane import Plane

PROVISIONER = "linodebs.csi.linode.com"
DEVICE_PLUGIN = {"app": "nvidia-device-plugin-daemonset"}
GPU = "nvidia.com/gpu"
_GPU_PLAN = "g2-gpu-"
_PERIOD_S = 0.4


class Controllers:
    """One thread that goes round all played controllers."""

    def __init__(self, plane: Plane, account: Account) -> None:
        self._plane, self._account = plane, account
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        with self._plane.api() as api:
            while not self._ended.wait(_PERIOD_S):
                if self._account.read().of("LkeCluster"):
                    for step in (balance, guard, _bind, _release, _advertise):
                        self._step(step, api)

    def _step(self, step: Callable[[Api, Account], None], api: Api) -> None:
        """An object may change between two calls; the next round sees it."""
        try:
            step(api, self._account)
        except Refused as error:
            if error.status not in {404, 409}:
                self.failures.append(f"{step.__name__}: {error}")


def _bind(api: Api, account: Account) -> None:
    """Make a volume for every claim of a class of Linode's."""
    classes = {each["metadata"]["name"]: each for each in api.list("storageclasses")}
    for claim in api.list("persistentvolumeclaims"):
        found = classes.get(claim["spec"].get("storageClassName", ""))
        if found is None or found["provisioner"] != PROVISIONER or claim["spec"].get("volumeName"):
            continue
        late = found.get("volumeBindingMode") == "WaitForFirstConsumer"
        chosen = "volume.kubernetes.io/selected-node" in claim["metadata"].get("annotations", {})
        if not claim["metadata"].get("deletionTimestamp") and (chosen or not late):
            _make_volume(api, account, claim, found)


def _make_volume(api: Api, account: Account, claim: Object, storage: Object) -> None:
    meta, size = claim["metadata"], claim["spec"]["resources"]["requests"]["storage"]
    name = f"pvc-{meta['uid']}"
    with account.open() as state:
        if not any(each["uid"] == meta["uid"] for each in state.of("Volume").values()):
            kept = {"label": name[:32], "uid": meta["uid"], "size": size}
            state.add("Volume", kept | {"claim": f"{meta['namespace']}/{meta['name']}"})
    names = ("namespace", "name", "uid")
    spec = {
        "accessModes": claim["spec"]["accessModes"],
        "capacity": {"storage": size},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        | {each: meta[each] for each in names},
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage["reclaimPolicy"],
        "storageClassName": storage["metadata"]["name"],
    }
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }
    api.create("persistentvolumes", body)


def _release(api: Api, account: Account) -> None:
    """Delete the volumes whose claim is gone, unless their class keeps them."""
    for volume in api.list("persistentvolumes"):
        spec, name = volume["spec"], volume["metadata"]["name"]
        released = volume.get("status", {}).get("phase") == "Released"
        if released and spec["persistentVolumeReclaimPolicy"] == "Delete":
            api.delete("persistentvolumes", name)
            with account.open() as state:
                remove(state, "Volume", spec["claimRef"]["uid"])


def _advertise(api: Api, account: Account) -> None:
    """Let a GPU node show its GPU once the device plugin runs there."""
    plugged = running(api, DEVICE_PLUGIN)
    for node in api.list("nodes"):
        meta, capacity = node["metadata"], node["status"].get("capacity", {})
        plan = meta["labels"].get("node.kubernetes.io/instance-type", "")
        if plan.startswith(_GPU_PLAN) and meta["name"] in plugged and GPU not in capacity:
            count = {GPU: plan.removeprefix(_GPU_PLAN + "rtx4000a").partition("-")[0]}
            status = {"capacity": count, "allocatable": count}
            api.patch("nodes", meta["name"], {"status": status}, status=True)


def wait_for(what: str, ready: Callable[[], bool], timeout_s: float = 60) -> None:
    """Poll until `ready`.

    Raises:
        TimeoutError: naming what was waited for.
    """
    deadline = time.monotonic() + timeout_s
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(0.2)
