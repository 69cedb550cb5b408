"""A small client of the API server: paths and JSON, as the tests and the played parts need it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any, Self

import httpx

Object = dict[str, Any]

_GROUPS = {
    "nodes": "/api/v1",
    "namespaces": "/api/v1",
    "pods": "/api/v1",
    "services": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "events": "/api/v1",
    "persistentvolumes": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "deployments": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "storageclasses": "/apis/storage.k8s.io/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "validatingadmissionpolicies": "/apis/admissionregistration.k8s.io/v1",
}


class Refused(Exception):
    """The API server answered with an error; `status` is its HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:500]}")
        self.status = status


class Api:
    """Calls one API server with a bearer token."""

    def __init__(self, url: str, token: str, ca: str) -> None:
        self.url, self.token, self.ca = url, token, ca
        headers = {"authorization": f"Bearer {token}"}
        context = ssl.create_default_context(cadata=ca)
        self._client = httpx.Client(
            base_url=url, headers=headers, verify=context, trust_env=False, timeout=30
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """All objects of a kind, in one namespace or in all."""
        return list(self.call("GET", _path(kind, namespace)).get("items", []))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, None where there is none."""
        try:
            return self.call("GET", _path(kind, namespace, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def create(self, kind: str, body: Object, namespace: str | None = None) -> Object:
        """Create, or return what is there under that name."""
        try:
            return self.call("POST", _path(kind, namespace), body)
        except Refused as error:
            if error.status == 409:
                return self.call("GET", _path(kind, namespace, body["metadata"]["name"]))
            raise

    def patch(
        self,
        kind: str,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        status: bool = False,
    ) -> Object:
        """Merge `body` into an object, or into its status."""
        path = _path(kind, namespace, name) + ("/status" if status else "")
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete; what is gone already is no error."""
        try:
            self.call("DELETE", _path(kind, namespace, name))
        except Refused as error:
            if error.status != 404:
                raise

    def ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return self._client.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def call(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        """One request; the answer is JSON."""
        headers: Mapping[str, str] = {} if body is None else {"content-type": kind}
        content = None if body is None else json.dumps(body)
        answer = self._client.request(method, path, content=content, headers=headers)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.text)
        found = answer.json()
        assert isinstance(found, dict)
        return found


def _path(kind: str, namespace: str | None, name: str | None = None) -> str:
    """`kind` is a plural that the table has, or `group/version/plural` of a custom one."""
    base, _, plural = kind.rpartition("/")
    base = f"/apis/{base}" if base else _GROUPS[plural]
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inside}/{plural}" + (f"/{name}" if name else "")
