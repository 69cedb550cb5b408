"""What is deployed on the bed: a whole configuration, with canaries for its secrets."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from nearfar_infra import stack, versions
from nearfar_infra.program import program

from . import canary
from .bed import Bed
from .deployment import Config, Deployment

# No change has to wait for a pod longer than this: what is played is there in a second.
_PATIENCE_S = 40
_JOB = "kubernetes:batch/v1:Job"
_WAITED_FOR = ("Deployment", "StatefulSet", "Job", "DaemonSet", "Service", "PersistentVolumeClaim")


def config(bed: Bed, **changes: str) -> Config:
    """The configuration; `changes` are keys of Pulumi.yaml without the project's name."""
    plain = {
        "label": "engine-test",
        "apiAllowed": '["192.0.2.10/32"]',
        "allowedSources": '["198.51.100.0/24"]',
        "domain": "gpu.example.com",
        "dnsZone": "example.com",
        "acmeEmail": "operator@example.com",
        "linodeApi": f"{bed.cloud.url}/v4",
        "mirror": bed.cloud.url,
        "pins": str(pins(bed.home / "pins.toml")),
    }
    secret = {"dnsToken": canary.DNS_TOKEN, "hfToken": canary.HUB_TOKEN}
    found = {f"nearfar:{name}": (value, False) for name, value in (plain | changes).items()}
    found |= {f"nearfar:{name}": (value, True) for name, value in secret.items()}
    return found | {"linode:token": (canary.LINODE_TOKEN, True)}


def pins(path: Path, **others: str) -> Path:
    """Write a digest for every image; `others` are digests by the image's key."""
    lines = []
    for key, image in versions.images().items():
        digest = others.get(key, hashlib.sha256(image.tagged.encode()).hexdigest())
        lines.append(f'"{image.tagged}" = "sha256:{digest}"\n')
    path.write_text("".join(sorted(set(lines))))
    return path


def deployment(bed: Bed, name: str = "test", **changes: str) -> Deployment:
    """The real program, as one stack on the bed."""
    found = Deployment(bed, name, _nothing, config(bed, **changes), canary.PASSPHRASE)
    found.program = lambda: declare(found.config)
    return found


def declare(config: Config) -> None:
    """What an inline program runs: the whole deployment, with less patience than for real pods."""
    pulumi.runtime.register_stack_transformation(_impatient)
    values = {name: value for name, (value, _) in config.items()}
    given = stack.given(values, _environment(), Path(os.devnull).parent)
    made = program(given.settings, given.sources, given.token)
    for name, value in made.exported.items():
        pulumi.export(name, value)


def _environment() -> Mapping[str, str]:
    """Nothing of the machine's own: a token there must not help."""
    return {}


def _impatient(
    args: pulumi.ResourceTransformationArgs,
) -> pulumi.ResourceTransformationResult | None:
    if args.type_.startswith("kubernetes:") and args.type_.endswith(_WAITED_FOR):
        patience = f"{_PATIENCE_S}s"
        args.opts.custom_timeouts = pulumi.CustomTimeouts(patience, patience, patience)
        if args.type_ == _JOB:
            # The provider starts a Job's time-out anew at every event; this one ends it.
            args.props = {**args.props, "spec": _brief(args.props["spec"])}
        return pulumi.ResourceTransformationResult(args.props, args.opts)
    return None


def _brief(spec: Any) -> Any:
    """A Job's spec with a short deadline; a spec may be known only later."""
    if isinstance(spec, pulumi.Output):
        return spec.apply(_brief)
    return {**spec, "activeDeadlineSeconds": _PATIENCE_S}


def _nothing() -> None:
    raise AssertionError("deployment() gives the stack its program")
