"""Configurations of the tests: the smallest that is right, and digests for every image."""

from __future__ import annotations

import json

from nearfar_infra import config, versions
from nearfar_infra.project import INFRA
from nearfar_infra.settings import Settings
from nearfar_infra.sources import Sources

SMALLEST = {"apiAllowed": json.dumps(["198.51.100.7/32"]), "acmeEmail": "ops@example.com"}
DIGEST = "sha256:" + "0123456789abcdef" * 4


def settings(**changed: str) -> Settings:
    """The smallest configuration with these keys changed."""
    return config.load({**SMALLEST, **changed}, root=INFRA)


def sources(mirror: str | None = None) -> Sources:
    """Every image pinned, from its own home or from a mirror."""
    return Sources(mirror, {image.tagged: DIGEST for image in versions.images().values()})
