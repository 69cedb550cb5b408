"""Where the images of other people's charts come from: their registry, or the mirror below it."""

from __future__ import annotations


def mirror_host(mirror: str | None) -> str | None:
    """A mirror's address as images name it: host and path, without scheme."""
    return None if mirror is None else mirror.partition("://")[2].rstrip("/")


def registry(host: str, mirror: str | None) -> str:
    """One registry's host, as it is or below the mirror."""
    below = mirror_host(mirror)
    return host if below is None else f"{below}/{host}"
