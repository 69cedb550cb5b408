"""Where charts and images come from: their own homes, or one mirror for all of them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nearfar_infra import versions
from nearfar_infra.errors import InfraError, PinsError
from nearfar_infra.versions import Image

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ChartRef:
    """A chart as helm's Release takes it: name, version, and the repository that holds it."""

    name: str
    version: str
    repository: str


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image by its digest, in the pieces that charts ask for."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def reference(self) -> str:
        """What a pod names; the digest decides, the tag is for people."""
        return f"{self.registry}/{self.repository}:{self.tag}@{self.digest}"

    @property
    def pinned_tag(self) -> str:
        """For charts that know a tag and no digest: they put it after the colon as it is."""
        return f"{self.tag}@{self.digest}"


@dataclass(frozen=True, slots=True)
class Sources:
    """Resolves every chart and image of one deployment.

    `mirror` is http(s)://host[:port][/path] or None. It holds charts as an ordinary Helm
    repository under /charts, and each image under its full name:
    mirror.example/path/docker.io/library/traefik. `pins` maps a tagged name to its digest.
    """

    mirror: str | None
    pins: Mapping[str, str] = field(repr=False)

    def chart(self, name: str) -> ChartRef:
        """Return one chart of versions.toml."""
        chart = versions.charts()[name]
        repository = f"{self.mirror.rstrip('/')}/charts" if self.mirror else chart.repository
        return ChartRef(name, chart.version, repository)

    def image(self, key: str) -> ImageRef:
        """Return one image of versions.toml by its digest.

        Raises:
            PinsError: when its digest is not known.
        """
        image = versions.images()[key]
        if image.tagged not in self.pins:
            raise PinsError([image.tagged])
        registry, _, repository = image.repository.partition("/")
        if self.mirror:
            host, _, path = self.mirror.partition("://")[2].rstrip("/").partition("/")
            registry, repository = host, "/".join(filter(None, (path, image.repository)))
        return ImageRef(registry, repository, image.tag, self.pins[image.tagged])

    def require(self, parts: Iterable[str]) -> None:
        """Refuse, before anything is created, images of these parts that have no digest."""
        missing = [image.tagged for image in wanted(parts) if image.tagged not in self.pins]
        if missing:
            raise PinsError(missing)


def wanted(parts: Iterable[str]) -> tuple[Image, ...]:
    """The images that a deployment of these parts pulls."""
    chosen = {versions.CORE, *parts}
    return tuple(image for image in versions.images().values() if image.part in chosen)


def read_pins(path: Path) -> dict[str, str]:
    """Read pins.toml; a file that is not there holds no pins.

    Raises:
        InfraError: when the file is not TOML or holds something else than digests.
    """
    try:
        pins = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    for name, digest in pins.items():
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise _unreadable(path, f"{name} has no digest of the form sha256:<64 hex digits>")
    return pins


def _unreadable(path: Path, why: str) -> InfraError:
    return InfraError(
        f"{path.name} cannot be read: {why}.", "make it again with `nearfar images pin`."
    )
