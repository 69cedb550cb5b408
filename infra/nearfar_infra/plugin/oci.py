"""Container images made and pushed without a container engine.

Sources: OCI Image Format 1.1 (manifest, configuration, layers) and OCI Distribution 1.1 (blobs,
uploads, manifests); the token scheme is Docker Registry v2's, which distributions share.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from nearfar_infra.plugin.kinds import KindError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_ACCEPTED = ", ".join(
    (
        MANIFEST,
        INDEX,
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
_TIMEOUT = httpx.Timeout(30.0, read=300.0, write=300.0)
_REFERENCE = re.compile(
    r"(?P<host>[a-z0-9.-]+(:\d+)?)/(?P<name>[a-z0-9._/-]+?)(:(?P<tag>[\w.-]+))?"
    r"(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_DOCKER_HUB = {"docker.io": "registry-1.docker.io"}


@dataclass(frozen=True, slots=True)
class Reference:
    """Where an image is. With a digest, the tag is only for people."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def of(cls, text: str) -> Reference:
        found = _REFERENCE.fullmatch(text)
        if found is None:
            raise KindError(
                f"{text!r} is not the name of an image.", "write it like registry.example/name:tag"
            )
        return cls(found["host"], found["name"], found["tag"] or "", found["digest"] or "")

    @property
    def wanted(self) -> str:
        return self.digest or self.tag or "latest"


@dataclass(frozen=True, slots=True)
class Blob:
    """A part of an image: its type, its digest, and its bytes where they are here."""

    media_type: str
    digest: str
    size: int
    data: bytes = field(default=b"", repr=False)

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def blob(media_type: str, data: bytes) -> Blob:
    return Blob(media_type, digest(data), len(data), data)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(files: Mapping[str, Path], mode: int = 0o755) -> tuple[Blob, str]:
    """Pack files (path in the image → file here) and answer the layer and its diff id.

    Nothing in it depends on when or by whom it was made: the same files, the same digest.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            data = files[name].read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    raw = packed.getvalue()
    return blob(LAYER, gzip.compress(raw, compresslevel=6, mtime=0)), digest(raw)


@dataclass(frozen=True, slots=True)
class Base:
    """An image to build on: its configuration and its layers, which stay where they are."""

    reference: Reference
    digest: str
    config: Mapping[str, Any]
    layers: tuple[Blob, ...]


def on_top(
    base: Base, layers: Iterable[tuple[Blob, str]], settings: Mapping[str, Any]
) -> tuple[Blob, Blob, tuple[Blob, ...]]:
    """Put layers on a base and answer manifest, configuration and the new layers."""
    added = tuple(layers)
    config: dict[str, Any] = json.loads(json.dumps(dict(base.config)))
    config["rootfs"]["diff_ids"] += [diff_id for _, diff_id in added]
    config["config"] = {**(config.get("config") or {}), **settings}
    config.pop("history", None)
    # An image without history and with the base's date is the same whenever it is made.
    made = blob(CONFIG, json.dumps(config, sort_keys=True).encode())
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": made.descriptor,
        "layers": [item.descriptor for item in (*base.layers, *(one for one, _ in added))],
        "annotations": {
            "org.opencontainers.image.base.name": f"{base.reference.host}/{base.reference.name}",
            "org.opencontainers.image.base.digest": base.digest,
        },
    }
    manifest = blob(MANIFEST, json.dumps(document, sort_keys=True).encode())
    return manifest, made, tuple(one for one, _ in added)


@dataclass(slots=True)
class Registry:
    """A registry by its host. `plain` speaks HTTP, for a registry on this machine."""

    host: str
    user: str = ""
    password: str = field(default="", repr=False)
    plain: bool = False
    transport: httpx.BaseTransport | None = None
    # Repository → the scope that was granted, and the header that says so.
    _granted: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    def base(self, reference: Reference, architecture: str = "amd64") -> Base:
        """Read an image for Linux on this architecture."""
        found, data = self._manifest(reference, reference.wanted)
        document = json.loads(data)
        if "manifests" in document:
            chosen = _for_platform(document["manifests"], architecture)
            found, data = self._manifest(reference, chosen)
            document = json.loads(data)
        config = self._call("GET", reference, f"blobs/{document['config']['digest']}").json()
        layers = tuple(
            Blob(item["mediaType"], item["digest"], item["size"]) for item in document["layers"]
        )
        return Base(reference, found, config, layers)

    def digest_of(self, reference: Reference) -> str:
        """The digest that a tag names now; empty where there is no such tag."""
        response = self._call(
            "HEAD", reference, f"manifests/{reference.wanted}", may_lack=True, accept=_ACCEPTED
        )
        return "" if response.status_code == 404 else str(response.headers["docker-content-digest"])

    def put(self, reference: Reference, item: Blob, source: Iterator[bytes] | None = None) -> None:
        """Upload a blob unless it is there; its bytes may come from another registry."""
        response = self._call("HEAD", reference, f"blobs/{item.digest}", may_lack=True)
        if response.status_code != 404:
            return
        started = self._call("POST", reference, "blobs/uploads/")
        where = httpx.URL(self._url(reference, "blobs/uploads/")).join(started.headers["location"])
        target = where.copy_merge_params({"digest": item.digest})
        headers = {"content-length": str(item.size), "content-type": "application/octet-stream"}
        content = item.data if source is None else source
        self._call("PUT", reference, str(target), content=content, headers=headers)

    def put_manifest(self, reference: Reference, item: Blob) -> None:
        self._call(
            "PUT",
            reference,
            f"manifests/{reference.tag or item.digest}",
            content=item.data,
            headers={"content-type": item.media_type},
        )

    def pieces(self, reference: Reference, item: Blob) -> Iterator[bytes]:
        """Read a blob piece by piece."""
        url = self._url(reference, f"blobs/{item.digest}")
        headers = self._headers(reference, url)
        with self._client() as client, client.stream("GET", url, headers=headers) as response:
            if response.status_code >= 400:
                raise _refused(self.host, response.status_code)
            yield from response.iter_bytes(1 << 20)

    def _manifest(self, reference: Reference, wanted: str) -> tuple[str, bytes]:
        response = self._call("GET", reference, f"manifests/{wanted}", accept=_ACCEPTED)
        found = digest(response.content)
        if wanted.startswith("sha256:") and wanted != found:
            raise KindError(
                f"{self.host} sent another image than the pinned one.", "do not use this registry."
            )
        return found, response.content

    def _call(
        self,
        method: str,
        reference: Reference,
        path: str,
        *,
        accept: str = "",
        may_lack: bool = False,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        url = path if path.startswith("http") else self._url(reference, path)
        sent = {**self._headers(reference, url), **(headers or {})}
        if accept:
            sent["accept"] = accept
        with self._client() as client:
            response = client.request(method, url, headers=sent, content=content)
            if response.status_code == 401 and self._take_token(client, response, reference):
                sent |= self._headers(reference, url)
                response = client.request(method, url, headers=sent, content=content)
        if response.status_code == 404 and may_lack:
            return response
        if response.status_code >= 400:
            raise _refused(self.host, response.status_code)
        return response

    def _take_token(
        self, client: httpx.Client, response: httpx.Response, reference: Reference
    ) -> bool:
        """Follow a challenge; False where its scope was granted already, and did not help."""
        challenge = response.headers.get("www-authenticate", "")
        asked = dict(_CHALLENGE.findall(challenge))
        wanted = asked.get("scope", challenge)
        if "realm" not in asked or self._granted.get(reference.name, ("", ""))[0] == wanted:
            return False
        basic = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        known = {"authorization": f"Basic {basic}"} if self.password else {}
        if challenge.lower().startswith("basic"):
            self._granted[reference.name] = (wanted, known.get("authorization", ""))
            return bool(known)
        params = {name: asked[name] for name in ("service", "scope") if name in asked}
        granted = client.get(asked["realm"], params=params, headers=known)
        if granted.status_code >= 400:
            raise _refused(self.host, granted.status_code)
        document = granted.json()
        token = document.get("token") or document["access_token"]
        self._granted[reference.name] = (wanted, f"Bearer {token}")
        return True

    def _headers(self, reference: Reference, url: str) -> dict[str, str]:
        """What was granted, to the registry and nowhere else: uploads may go to another host."""
        own = httpx.URL(self._url(reference, "")).netloc == httpx.URL(url).netloc
        _, header = self._granted.get(reference.name, ("", ""))
        return {"authorization": header} if header and own else {}

    def _client(self) -> httpx.Client:
        return httpx.Client(timeout=_TIMEOUT, transport=self.transport, follow_redirects=True)

    def _url(self, reference: Reference, path: str) -> str:
        scheme = "http" if self.plain else "https"
        host = _DOCKER_HUB.get(self.host, self.host)
        return f"{scheme}://{host}/v2/{reference.name}/{path}"


def _for_platform(manifests: Sequence[Mapping[str, Any]], architecture: str) -> str:
    for item in manifests:
        platform = item.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", architecture):
            return str(item["digest"])
    raise KindError(f"The image is not there for linux/{architecture}.", "choose another base.")


def _refused(host: str, status: int) -> KindError:
    return KindError(
        f"The registry {host} answered {status}.",
        "check its name, the repository's, user and password in the configuration.",
    )
