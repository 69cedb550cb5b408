"""From a tag to its digest, over the registry API (OCI distribution specification, section 3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from nearfar_infra.errors import InfraError
from nearfar_infra.sources import DIGEST, wanted

# A tag of several platforms is an index; its digest is what a pod names.
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
# The name that people use is not the host that serves the API.
_HOSTS = {"docker.io": "registry-1.docker.io"}
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
TIMEOUT_S = 30.0


class RegistryError(InfraError):
    """A registry did not tell a digest; the message names image and reason."""

    exit_code = 3

    def __init__(self, image: str, why: str) -> None:
        super().__init__(
            f"The digest of {image} could not be read: {why}.",
            "check that the registry can be reached, and that the tag is there.",
        )


def resolve(
    parts: Iterable[str], mirror: str | None, say: Callable[[str], None] = lambda _: None
) -> dict[str, str]:
    """Return the digest of every image of these parts, by its tagged name.

    With a mirror (http(s)://host/path) the digests are those that the mirror serves.

    Raises:
        RegistryError: of the first image that could not be resolved.
    """
    found = {}
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        for image in wanted(parts):
            say(image.tagged)
            found[image.tagged] = _digest(client, image.repository, image.tag, mirror)
    return found


def write(path: Path, pins: Mapping[str, str], day: str) -> None:
    """Write pins.toml, sorted; what it held before for other images stays."""
    lines = [
        "# The digest of every image that a deployment pulls, by its name and tag.",
        f"# `nearfar images pin` made this on {day}; commit it.",
        "",
        *(f'"{name}" = "{digest}"' for name, digest in sorted(pins.items())),
    ]
    draft = path.with_name(f".{path.name}.part")
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(path)


def _digest(client: httpx.Client, repository: str, tag: str, mirror: str | None) -> str:
    base, path = _place(repository, mirror)
    url = f"{base}/v2/{path}/manifests/{tag}"
    name = f"{repository}:{tag}"
    try:
        answer = client.head(url, headers={"accept": _ACCEPT})
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = _token(client, answer, name)
            headers = {"accept": _ACCEPT, "authorization": f"Bearer {token}"}
            answer = client.head(url, headers=headers)
    except httpx.HTTPError as error:
        raise RegistryError(name, type(error).__name__) from error
    if answer.status_code != httpx.codes.OK:
        raise RegistryError(name, f"the registry answered {answer.status_code}")
    digest = str(answer.headers.get("docker-content-digest", ""))
    if not DIGEST.fullmatch(digest):
        raise RegistryError(name, "the registry told no digest")
    return digest


def _place(repository: str, mirror: str | None) -> tuple[str, str]:
    """The API's address and the repository's path there."""
    if mirror is None:
        host, _, path = repository.partition("/")
        return f"https://{_HOSTS.get(host, host)}", path
    parts = urlsplit(mirror)
    inside = "/".join(filter(None, (parts.path.strip("/"), repository)))
    return f"{parts.scheme}://{parts.netloc}", inside


def _token(client: httpx.Client, refused: httpx.Response, name: str) -> str:
    """Ask for a token to read with, where the registry's 401 says (anonymous is enough)."""
    challenge = str(refused.headers.get("www-authenticate", ""))
    asked = dict(_CHALLENGE.findall(challenge))
    realm = asked.pop("realm", "")
    safe = urlsplit(realm).scheme in ("https", refused.request.url.scheme)
    if not challenge.lower().startswith("bearer ") or not safe:
        raise RegistryError(name, "the registry wants a login")
    answer = client.get(realm, params=asked)
    if answer.status_code != httpx.codes.OK:
        raise RegistryError(name, f"its token server answered {answer.status_code}")
    found = answer.json()
    return str(found.get("token") or found.get("access_token") or "")
