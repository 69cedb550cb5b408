"""Asks a Kubernetes API server for pods and their events; on demand it lets one be made anew."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from nearfar.errors import BadInput, Missing, NearfarError
from nearfar.placement.kubeconfig import Cluster
from nearfar.placement.pod_story import NotStarted, start_of
from nearfar.placement.steps import Start

TIMEOUT_S = 15.0
RENEWED_TIMEOUT_S = 1200.0
_POLL_S = 1.0
Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one label selector in one namespace."""

    cluster: Cluster
    namespace: str
    selector: str
    session: httpx.Client

    def all(self) -> list[Pod]:
        """The pods that are not being deleted, the newest first.

        Raises:
            Missing: the API server does not answer.
            BadInput: it refuses.
        """
        found = self._get("pods", {"labelSelector": self.selector})
        pods = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)

    def start(self, pod: Pod, number: int) -> Start:
        """What is told of one pod's start.

        Raises:
            NotStarted: it is not ready.
        """
        chosen = f"involvedObject.uid={pod['metadata']['uid']}"
        return start_of(pod, self._get("events", {"fieldSelector": chosen}), number)

    def renewed(self, number: int, timeout_s: float = RENEWED_TIMEOUT_S) -> Start:
        """Delete the newest pod and wait until its successor is ready: it is down meanwhile.

        Raises:
            Missing: no successor was ready in time.
        """
        before = self.all()
        if not before:
            raise self._none()
        known = {pod["metadata"]["uid"] for pod in before}
        name = quote(before[0]["metadata"]["name"], safe="")
        self._ask("DELETE", f"pods/{name}")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for pod in self.all():
                if pod["metadata"]["uid"] not in known:
                    try:
                        return self.start(pod, number)
                    except NotStarted:
                        continue
            time.sleep(_POLL_S)
        raise Missing(
            f"No new pod of {self.selector!r} was ready within {timeout_s:g} s.",
            f"kubectl -n {self.namespace} get pods -l {self.selector}",
        )

    def some(self) -> list[Pod]:
        """The pods, of which there must be one."""
        found = self.all()
        if not found:
            raise self._none()
        return found

    def _none(self) -> Missing:
        return Missing(
            f"There is no pod of {self.selector!r} in the namespace {self.namespace!r}.",
            "name others with --namespace and --selector.",
        )

    def _get(self, kind: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        items = self._ask("GET", kind, query).get("items")
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get("metadata"), dict) for item in items
        ):
            raise self._other(f"it sent no list of {kind}")
        return items

    def _ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        where = f"/api/v1/namespaces/{quote(self.namespace, safe='')}/{path}"
        try:
            answer = self.session.request(method, where, params=query)
            document = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Missing(
                f"The API server {self.cluster.server} does not answer ({type(error).__name__}).",
                "check the kubeconfig's server, and that it can be reached from here.",
            ) from error
        except ValueError:
            raise self._other(f"it answered {answer.status_code}, and no JSON") from None
        if answer.status_code in (401, 403):
            raise BadInput(
                f"The API server refuses this kubeconfig ({answer.status_code}).",
                "its user needs get and list of pods and events; delete of pods for --renew.",
            )
        if not answer.is_success or not isinstance(document, dict):
            raise self._other(f"it answered {answer.status_code}")
        return document

    def _other(self, what: str) -> NearfarError:
        return NearfarError(
            f"{self.cluster.server} is no Kubernetes API server, or fails: {what}.",
            "check the kubeconfig.",
        )


@contextmanager
def asked(cluster: Cluster, selector: str, namespace: str | None) -> Iterator[Pods]:
    """Ask about the pods of a selector for as long as the block lasts."""
    headers = {"authorization": f"Bearer {cluster.token}"} if cluster.token else {}
    with httpx.Client(
        base_url=cluster.server,
        verify=cluster.tls or True,
        headers=headers,
        timeout=TIMEOUT_S,
        trust_env=False,
    ) as session:
        yield Pods(cluster, namespace or cluster.namespace, selector, session)
