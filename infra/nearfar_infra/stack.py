"""What a run is made from: configuration, token, digests; reading them creates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nearfar_infra import config, names
from nearfar_infra.errors import InfraError
from nearfar_infra.settings import Settings
from nearfar_infra.sources import Sources, read_pins

_PREFIX = f"{names.PROJECT}:"
TOKEN = "LINODE_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of `program.program`."""

    settings: Settings
    sources: Sources
    token: str = field(repr=False)


def given(values: Mapping[str, str], environment: Mapping[str, str], root: Path) -> Given:
    """Read all that a run needs; `values` are a stack's, with their namespaces.

    Raises:
        ConfigError: the settings are wrong; every one is named.
        PinsError: an image that would be pulled has no digest.
        InfraError: there is no token, or pins.toml is none.
    """
    own = {
        key.removeprefix(_PREFIX): value for key, value in values.items() if key.startswith(_PREFIX)
    }
    settings = config.load(own, root=root)
    token = values.get("linode:token") or environment.get(TOKEN)
    if not token:
        raise InfraError(
            "There is no token for Linode.",
            f"set {TOKEN}, or run `pulumi config set --secret linode:token TOKEN`.",
        )
    sources = Sources(settings.mirror, read_pins(root / settings.pins))
    sources.require(settings.parts)
    return Given(settings, sources, token)
