"""The charts and images of versions.toml as values."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

CORE = "core"


@dataclass(frozen=True, slots=True)
class Chart:
    """One Helm chart at one version. `part` is what it is deployed for; `as_of` a day."""

    name: str
    part: str
    repository: str
    version: str
    as_of: str


@dataclass(frozen=True, slots=True)
class Image:
    """One container image at one tag; `repository` begins with its registry's host."""

    key: str
    part: str
    repository: str
    tag: str
    as_of: str

    @property
    def tagged(self) -> str:
        """The name that a digest is looked up by."""
        return f"{self.repository}:{self.tag}"


@cache
def charts() -> dict[str, Chart]:
    """Every chart by its name."""
    return {name: Chart(name, **entry) for name, entry in _table()["charts"].items()}


@cache
def images() -> dict[str, Image]:
    """Every image by its key."""
    return {key: Image(key, **entry) for key, entry in _table()["images"].items()}


def _table() -> dict[str, dict[str, dict[str, str]]]:
    text = resources.files("nearfar_infra").joinpath("versions.toml").read_text("utf-8")
    return tomllib.loads(text)
