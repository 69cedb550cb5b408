"""A fake container registry in memory, after OCI Distribution 1.1, with Docker's token scheme.

It stands in for a registry on the internet: it checks every digest, wants a token whose scope
allows what is done, and refuses a manifest whose parts it does not hold.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "bot", "registry-password-canary"
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9/._-]+)/(?P<kind>blobs|manifests)/(?P<what>.+)")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass
class FakeRegistry:
    """What it holds: blobs by digest, manifests by tag and by digest. `host` is set when served."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def hold(self, name: str, tag: str, config: dict[str, Any], *layers: bytes) -> str:
        """Put an image in, as if somebody had pushed it; answers its digest."""
        parts = [self._blob(json.dumps(config).encode()), *map(self._blob, layers)]
        document = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": parts[0],
            "layers": parts[1:],
        }
        return self.put(name, tag, json.dumps(document).encode())

    def put(self, name: str, tag: str, manifest: bytes) -> str:
        digest = digest_of(manifest)
        self.manifests[name, tag] = self.manifests[name, digest] = manifest
        return digest

    def _blob(self, data: bytes) -> dict[str, Any]:
        self.blobs[digest_of(data)] = data
        return {"mediaType": "x", "digest": digest_of(data), "size": len(data)}


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextmanager
def serving(registry: FakeRegistry) -> Iterator[FakeRegistry]:
    """Serve it on a free port, without TLS, until the end of the block."""

    class Handler(_Handler):
        fake = registry

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/token"):
            self._token()
        elif self._may("pull"):
            self._read()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self._body()
        assert b"" == body
        if self._may("push"):
            where = self.path + "upload-1?state=x"
            self._answer(202, b"", location=where)

    def do_PUT(self) -> None:
        body = self._body()
        if not self._may("push"):
            return
        parts = urlsplit(self.path)
        if "/blobs/uploads/" in parts.path:
            wanted = parse_qs(parts.query)["digest"][0]
            if digest_of(body) != wanted:
                self._answer(400, b"digest")
                return
            self.fake.blobs[wanted] = body
            self._answer(201, b"")
            return
        found = _PATH.fullmatch(parts.path)
        assert found
        document = json.loads(body)
        needed = [document["config"], *document["layers"]]
        if any(part["digest"] not in self.fake.blobs for part in needed):
            self._answer(400, b"a part is missing")
            return
        digest = self.fake.put(found["name"], found["what"], body)
        self._answer(201, b"", **{"docker-content-digest": digest})

    def _read(self) -> None:
        found = _PATH.fullmatch(self.path)
        data = None
        if found and found["kind"] == "blobs":
            data = self.fake.blobs.get(found["what"])
        elif found:
            data = self.fake.manifests.get((found["name"], found["what"]))
        if data is None:
            self._answer(404, b"")
        else:
            self._answer(200, data, **{"docker-content-digest": digest_of(data)})

    def _may(self, action: str) -> bool:
        self.fake.asked.append((self.command, self.path))
        name = self.path.removeprefix("/v2/").partition("/blobs/")[0].partition("/manifests/")[0]
        scope = f"repository:{name}:{'pull' if action == 'pull' else 'pull,push'}"
        if self.headers.get("authorization") in (f"Bearer {scope}", f"Bearer {scope},push"):
            return True
        realm = f"http://{self.fake.host}/token"
        challenge = f'Bearer realm="{realm}",service="fake",scope="{scope}"'
        self._answer(401, b"", **{"www-authenticate": challenge})
        return False

    def _token(self) -> None:
        scope = parse_qs(urlsplit(self.path).query)["scope"][0]
        known = self.headers.get("authorization") == _basic()
        if "push" in scope and not known:
            self._answer(403, b"")
        else:
            self._answer(200, json.dumps({"token": scope}).encode())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def _basic() -> str:
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
