"""One exchange with an edge: where it is, how it is asked, and what its errors become here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from edge_frontend import sse
from nearfar.errors import BadInput, Missing, NearfarError, Refused

# The first answer of a cold model can take long; an answer that stands still is given up.
TIMEOUT = httpx.Timeout(10.0, read=180.0)


@dataclass(frozen=True, slots=True)
class Edge:
    """Where an edge is and the key that it is asked with."""

    endpoint: str
    api_key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("http://", "https://")):
            raise BadInput(
                f"The endpoint {self.endpoint!r} is not a web address.",
                "give one like http://127.0.0.1:3000",
            )

    def url(self, path: str) -> str:
        """The address of a path; the endpoint may be given with or without /v1 at its end."""
        return self.endpoint.rstrip("/").removesuffix("/v1") + path

    @property
    def secure(self) -> bool:
        return self.endpoint.startswith("https://")


def models(edge: Edge) -> list[str]:
    """Return the names of the models that the edge serves."""
    with session_of(None) as session, mapped_errors(edge):
        response = session.get(
            edge.url("/v1/models"), headers={"authorization": f"Bearer {edge.api_key}"}
        )
        check(response)
        return [str(entry["id"]) for entry in response.json()["data"]]


def check(response: httpx.Response) -> None:
    """Raise the edge's error object unless the answer is a success."""
    if response.is_success:
        return
    response.read()
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": f"the endpoint answered {response.status_code}, not as an edge does"}
    raise refused(response.status_code, error)


def refused(status: int, error: Mapping[str, Any]) -> Refused:
    """Turn an error object of the edge into ours; status 0: it came within a stream."""
    steps = {
        401: "pass a valid key with --api-key or NEARFAR_API_KEY.",
        403: "make a key that has the permission: ./nearfar keys create --permission NAME",
        404: "see /v1/models of the endpoint for what it serves.",
    }
    message, code = str(error.get("message", "no reason given")), str(error.get("code") or "")
    return Refused(f"The edge refused: {message}", steps.get(status, ""), status=status, code=code)


@contextmanager
def session_of(client: httpx.Client | None) -> Iterator[httpx.Client]:
    """Use the given client, which stays open, or one of our own."""
    if client is not None:
        yield client
        return
    # Proxies of the environment are for other places: a local edge is asked directly.
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as own:
        yield own


@contextmanager
def mapped_errors(edge: Edge) -> Iterator[None]:
    """Turn httpx's errors into ours; no message shows a key."""
    try:
        yield
    except httpx.ConnectError as error:
        raise Missing(
            f"Nothing answers at {edge.endpoint}.", "./nearfar status, or check --endpoint."
        ) from error
    except httpx.TimeoutException as error:
        raise Missing(f"{edge.endpoint} did not answer in time.", "./nearfar status") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Missing(
            f"The exchange with {edge.endpoint} failed ({type(error).__name__}).",
            "./nearfar status",
        ) from error
    except (json.JSONDecodeError, sse.EventTooLarge) as error:
        raise NearfarError(
            f"{edge.endpoint} sent something that is not a chat stream.", "check --endpoint."
        ) from error
