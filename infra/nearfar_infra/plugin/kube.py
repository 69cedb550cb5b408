"""The cluster's API server from a kubeconfig: reading only, for what has to be waited for."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from nearfar_infra.plugin.kinds import KindError

TIMEOUT_S = 10.0


class Unreachable(Exception):
    """The API server did not answer, or not as it should; waiting may help."""


def read(kubeconfig: str, path: str) -> Mapping[str, Any]:
    """Return one object or list of the API server, `path` from /api or /apis on.

    Raises:
        Unreachable: it did not answer with 200.
        KindError: the kubeconfig is none.
    """
    server, trust, token = _access(kubeconfig)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(verify=trust, timeout=TIMEOUT_S, trust_env=False) as client:
            response = client.get(server.rstrip("/") + path, headers=headers)
            response.raise_for_status()
            found: Mapping[str, Any] = response.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unreachable(type(error).__name__) from None
    return found


def _access(kubeconfig: str) -> tuple[str, ssl.SSLContext, str]:
    """The current context's server, whom to trust, and the token (or a certificate)."""
    try:
        known = yaml.safe_load(kubeconfig)
        context = _named(known["contexts"], known["current-context"])["context"]
        cluster = _named(known["clusters"], context["cluster"])["cluster"]
        user = _named(known["users"], context["user"])["user"]
        trust = _trust(cluster)
        _identify(trust, user)
        return str(cluster["server"]), trust, str(user.get("token") or "")
    except (KeyError, TypeError, StopIteration, ValueError, yaml.YAMLError, ssl.SSLError):
        raise KindError(
            "The cluster's kubeconfig is not one.", "run `pulumi refresh`, then up again."
        ) from None


def _named(items: list[Any], name: str) -> Any:
    return next(item for item in items if item["name"] == name)


def _trust(cluster: Mapping[str, Any]) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError
    given = cluster.get("certificate-authority-data")
    return ssl.create_default_context(cadata=base64.b64decode(given).decode() if given else None)


def _identify(trust: ssl.SSLContext, user: Mapping[str, Any]) -> None:
    """Python takes a client's certificate from files only; they are gone when this returns."""
    if "client-certificate-data" not in user:
        return
    with tempfile.TemporaryDirectory(prefix="nearfar-kube-") as folder:
        paths = {}
        for name in ("client-certificate-data", "client-key-data"):
            paths[name] = Path(folder, name)
            paths[name].touch(mode=0o600)
            paths[name].write_bytes(base64.b64decode(user[name]))
        trust.load_cert_chain(paths["client-certificate-data"], paths["client-key-data"])
