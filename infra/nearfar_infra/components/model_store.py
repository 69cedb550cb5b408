"""The volume with weights, libraries and compile cache, and the Job that fills it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi import ResourceOptions

from nearfar_infra.manifests import model_files
from nearfar_infra.manifests.model_files import Files
from nearfar_infra.manifests.start_up import timeout
from nearfar_infra.objects import declare
from nearfar_infra.settings import ServingSettings


@dataclass(frozen=True, slots=True)
class ModelStoreArgs:
    """`gpu_ready` is waited for: the Job runs where the volume will be used."""

    serving: ServingSettings
    files: Files
    gpu_ready: pulumi.Input[str]


class ModelStore(pulumi.ComponentResource):
    """Without a volume (`weights: stream`) each pod fetches for itself: only scripts are here."""

    def __init__(
        self, name: str, args: ModelStoreArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("nearfar:components:ModelStore", name, {}, opts)
        own = ResourceOptions(parent=self)
        files, serving = args.files, args.serving
        scripts = declare(f"{name}-scripts", model_files.scripts(files), own)
        if serving.weights == "volume":
            claim = model_files.claim(
                files.namespace, serving.storage_class, serving.model_volume_gib
            )
            volume = declare(f"{name}-volume", claim, own)
            _job(f"{name}-fetch", args, ResourceOptions(parent=self, depends_on=[scripts, volume]))
        self.register_outputs({})


def _job(name: str, args: ModelStoreArgs, opts: ResourceOptions) -> None:
    """The Job, waited for until it is done; known GPUs come first."""
    manifest = model_files.job(args.files)
    patience = timeout(args.files.budget.fetch_s + 120)
    manifest["metadata"]["annotations"] = {"nearfar.dev/gpu": args.gpu_ready}
    waits = ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create=patience, update=patience))
    declare(name, manifest, ResourceOptions.merge(opts, waits))
