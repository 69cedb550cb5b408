"""Linode's API as an operator reads it: nothing here changes anything.

Source: techdocs.akamai.com/linode-api (API v4): pages of a collection, `X-OAuth-Scopes` in the
headers of an answer to a token, errors as {"errors": [{"reason"}]}.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from nearfar.errors import BadInput, Missing, Refused

API = "https://api.linode.com/v4"
TOKEN = "LINODE_TOKEN"  # noqa: S105 - the name of a variable
PAGE = 100
TIMEOUT_S = 20.0
# A token with this scope may do everything.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Linode:
    """Reads with a token; without one, what everybody may read."""

    api: str = API
    token: str = field(default="", repr=False)

    def one(self, path: str) -> Any:
        """Return one object.

        Raises:
            Refused: the API answered with an error; `status` is its.
            Missing: it does not answer.
        """
        return self._get(path).json()

    def all(self, path: str) -> Iterator[dict[str, Any]]:
        """Return every object of a collection, over all of its pages."""
        page, pages = 1, 1
        while page <= pages:
            document = self._get(path, page=page, page_size=PAGE).json()
            if isinstance(document, list):  # availability is no collection of pages
                yield from document
                return
            yield from document["data"]
            page, pages = page + 1, int(document.get("pages", 1))

    def scopes(self) -> frozenset[str]:
        """What the token may do, as Linode says it: "lke:read_write", or "*"."""
        told = self._get("/profile").headers.get("x-oauth-scopes", "")
        return frozenset(told.replace(",", " ").split())

    def _get(self, path: str, **params: int) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        url = self.api.rstrip("/") + path
        try:
            with httpx.Client(timeout=TIMEOUT_S, headers=headers, verify=_trust()) as client:
                response = client.get(url, params=params)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Missing(
                f"Linode's API at {self.api} does not answer ({type(error).__name__}).",
                "check the network, and the setting linodeApi.",
            ) from error
        if response.is_success:
            return response
        raise _refused(path, response)


@cache
def _trust() -> ssl.SSLContext:
    """The system's certificates, which take longer to read than an answer."""
    return ssl.create_default_context()


def from_environment(api: str = API) -> Linode:
    """Return the API with the token of the environment.

    Raises:
        BadInput: there is none.
    """
    token = os.environ.get(TOKEN, "")
    if not token:
        raise BadInput(
            "There is no token for Linode.",
            f"make one at cloud.linode.com/profile/tokens, and set {TOKEN}.",
        )
    return Linode(api, token)


def may(scopes: frozenset[str], wanted: str) -> bool:
    """Whether these scopes allow one; writing includes reading."""
    area, _, level = wanted.partition(":")
    enough = {f"{area}:read_write", EVERYTHING, f"{area}:*"}
    return bool(scopes & (enough | ({wanted} if level == "read_only" else set())))


def _refused(path: str, response: httpx.Response) -> Refused:
    try:
        reasons = [str(item["reason"]) for item in response.json()["errors"]]
    except (ValueError, LookupError, TypeError):
        reasons = [f"it answered {response.status_code}"]
    steps = {
        401: f"set {TOKEN} to a token that is valid and not expired.",
        403: "give the token the scope that docs/deploy.md lists.",
        404: "check the name.",
    }
    why = "; ".join(reasons).rstrip(".")
    step = steps.get(response.status_code, "try again later.")
    return Refused(f"Linode refused {path}: {why}.", step, status=response.status_code)
