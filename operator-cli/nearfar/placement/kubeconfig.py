"""A kubeconfig's current context: where the API server is, and how to prove who asks."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nearfar.errors import BadInput


@dataclass(frozen=True, slots=True)
class Cluster:
    """One API server. `namespace` is the context's own."""

    server: str
    namespace: str
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def read(path: Path, context: str | None = None) -> Cluster:
    """Read a kubeconfig. Its `exec` and `auth-provider` users are refused: no program is run.

    Raises:
        BadInput: it cannot be read, or lacks something; the message never shows a secret.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}).", "check its name.") from error
    except (yaml.YAMLError, UnicodeDecodeError):
        raise _wrong(path, "is not YAML") from None
    if not isinstance(document, dict):
        raise _wrong(path, "is no kubeconfig")
    name = context or document.get("current-context")
    chosen = _named(path, document, "contexts", "context", name)
    cluster = _named(path, document, "clusters", "cluster", chosen.get("cluster"))
    user = _named(path, document, "users", "user", chosen.get("user"))
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise _wrong(path, "has a cluster without a server")
    for kind in ("exec", "auth-provider"):
        if kind in user:
            raise BadInput(
                f"The user of {path} proves itself by {kind}, which is not run here.",
                "make a kubeconfig with a token: kubectl create token NAME",
            )
    folder = path.resolve().parent
    tls = _tls(path, folder, cluster, user) if server.startswith("https://") else None
    namespace = str(chosen.get("namespace") or "default")
    return Cluster(server.rstrip("/"), namespace, _token(path, folder, user), tls)


def _named(
    path: Path, document: Mapping[str, Any], many: str, one: str, name: object
) -> Mapping[str, Any]:
    entries = document.get(many)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and name and entry.get("name") == name:
            found = entry.get(one)
            if isinstance(found, dict):
                return found
    raise _wrong(path, f"has no {one} {name!r}" if name else f"names no {one}")


def _token(path: Path, folder: Path, user: Mapping[str, Any]) -> str:
    if user.get("token"):
        return str(user["token"])
    if user.get("tokenFile"):
        return _file(path, folder, user["tokenFile"]).decode("utf-8", "replace").strip()
    return ""


def _tls(
    path: Path, folder: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]
) -> ssl.SSLContext:
    tls = ssl.create_default_context()
    try:
        authority = _content(path, folder, cluster, "certificate-authority")
        if authority is not None:
            tls.load_verify_locations(cadata=authority.decode("ascii"))
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        certificate = _content(path, folder, user, "client-certificate")
        key = _content(path, folder, user, "client-key")
        if certificate is not None and key is not None:
            _load(tls, certificate + b"\n" + key)
    except (ssl.SSLError, UnicodeDecodeError):
        raise _wrong(path, "has a certificate or key that is none") from None
    return tls


def _load(tls: ssl.SSLContext, pair: bytes) -> None:
    """Python's ssl takes a pair from a file alone; it lies there, for its owner, for an instant."""
    handle, name = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pair)
        tls.load_cert_chain(name)
    finally:
        Path(name).unlink()


def _content(path: Path, folder: Path, entry: Mapping[str, Any], name: str) -> bytes | None:
    """What stands in NAME-data, or in the file that NAME names."""
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(entry[f"{name}-data"]), validate=True)
        except binascii.Error:
            raise _wrong(path, f"has a {name}-data that is no base64") from None
    return _file(path, folder, entry[name]) if entry.get(name) else None


def _file(path: Path, folder: Path, name: object) -> bytes:
    try:
        return (folder / str(name)).read_bytes()
    except OSError as error:
        raise _wrong(path, f"names a file that cannot be read ({error.strerror})") from None


def _wrong(path: Path, what: str) -> BadInput:
    return BadInput(f"{path} {what}.", "fetch the kubeconfig again, or name another one.")
