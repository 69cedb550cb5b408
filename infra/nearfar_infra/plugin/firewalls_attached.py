"""Asks Linode whether the firewalls that were asked for are really there.

LKE takes settings that it then ignores (a pool's firewall_id, for one), so what was asked for by
other ways is looked at: the NodeBalancer has one firewall that drops what it does not know, and
every node of the cluster is in a firewall that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed, wrong

_TYPES: Mapping[str, type] = {
    "api": str,
    "token": str,
    "clusterId": str,
    "address": str,
    "watched": list,
    "seconds": int,
}
# What makes another look necessary; a new token is none of it.
_DECIDES = ("api", "clusterId", "address", "watched")
PAUSE_S = 5.0
TIMEOUT_S = 15.0
# Linode's lists come in pages of at most this many.
PAGE = 500


class _Away(Exception):
    """The API did not answer as it should; waiting may help."""


@dataclass(frozen=True, slots=True)
class FirewallsAttached:
    """Inputs: `api` (address), `token` (secret), `clusterId`, the NodeBalancer's `address` (IPv4),
    `watched` (texts whose change asks for another look), `seconds` to wait. No outputs besides."""

    sleep: Callable[[float], None] = time.sleep

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        return news, wrong(news, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        known = {name: olds.get(name) for name in _DECIDES}
        return Change(changed(known, {name: news.get(name) for name in _DECIDES}))

    def create(self, inputs: Values) -> Made:
        self._wait(inputs)
        return Made(f"firewalls-{inputs['clusterId']}", inputs)

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        self._wait(news)
        return news

    def delete(self, id_: str, outputs: Values) -> None:
        """It only looked."""

    def _wait(self, inputs: Values) -> None:
        end = time.monotonic() + inputs["seconds"]
        while missing := self._missing(inputs):
            if time.monotonic() > end:
                raise KindError(
                    f"{missing} Next to nothing guards it.",
                    "look at Cloud Firewalls in Linode's manager and at the log of "
                    "cloud-firewall-controller in kube-system, then run up again.",
                )
            self.sleep(PAUSE_S)

    def _missing(self, inputs: Values) -> str:
        """The first thing that is not guarded, as a sentence; empty when all is."""
        try:
            return next(self._unguarded(inputs), "")
        except _Away as away:
            return f"Linode's API did not answer ({away})."

    def _unguarded(self, inputs: Values) -> Iterator[str]:
        get = _Api(inputs["api"], inputs["token"]).all
        balancers = [b for b in get("/nodebalancers") if b.get("ipv4") == inputs["address"]]
        if not balancers:
            yield f"There is no NodeBalancer with the address {inputs['address']}."
        for balancer in balancers:
            if not any(map(_drops, get(f"/nodebalancers/{balancer['id']}/firewalls"))):
                yield f"NodeBalancer {balancer['id']} has no firewall that drops by default."
        pools = get(f"/lke/clusters/{inputs['clusterId']}/pools")
        for node in (node for pool in pools for node in pool["nodes"]):
            linode = node.get("instance_id")
            if linode and not any(map(_drops, get(f"/linode/instances/{linode}/firewalls"))):
                yield f"Node {linode} is in no firewall that drops by default."


def _drops(firewall: Mapping[str, Any]) -> bool:
    enabled = firewall.get("status") == "enabled"
    return enabled and firewall.get("rules", {}).get("inbound_policy") == "DROP"


@dataclass(frozen=True, slots=True)
class _Api:
    """Linode's API, reading only."""

    address: str
    token: str

    def all(self, path: str) -> list[dict[str, Any]]:
        """Return a whole list, page by page."""
        found: list[dict[str, Any]] = []
        page, pages = 1, 1
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client:
            while page <= pages:
                answer = self._page(client, path, page)
                found += answer["data"]
                page, pages = page + 1, answer["pages"]
        return found

    def _page(self, client: httpx.Client, path: str, page: int) -> dict[str, Any]:
        url = f"{self.address.rstrip('/')}{path}"
        try:
            response = client.get(url, params={"page": page, "page_size": PAGE})
            response.raise_for_status()
            answer: dict[str, Any] = response.json()
        except httpx.HTTPStatusError as error:
            raise _Away(f"{error.response.status_code} for {path}") from None
        except (httpx.HTTPError, ValueError) as error:
            raise _Away(type(error).__name__) from None
        return answer
