"""When an edge is ready: it says so itself, and names what it waits for."""

from __future__ import annotations

import time

import httpx

from nearfar.errors import PartDied
from nearfar.logs import last_lines
from nearfar.process import Part

READY_TIMEOUT_S = 60


def wait_ready(endpoint: str, part: Part, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Wait until the edge says that it and all it depends on are ready.

    Raises:
        PartDied: with what the edge says is not ready.
    """
    deadline = time.monotonic() + timeout_s
    with httpx.Client(trust_env=False, timeout=5) as session:
        while True:
            part.check()
            said = _readiness(session, endpoint)
            if said is None:
                return
            if time.monotonic() > deadline:
                raise PartDied(
                    f"The edge is not ready after {timeout_s:g} s: {said}",
                    "make ready what it names, and run this again.",
                    last_lines(part.log),
                )
            time.sleep(0.1)


def _readiness(session: httpx.Client, endpoint: str) -> str | None:
    """None when the edge is ready, else what it said, or that it said nothing."""
    try:
        response = session.get(f"{endpoint}/readyz")
    except httpx.HTTPError as error:
        return f"it does not answer ({type(error).__name__})"
    return None if response.status_code == 200 else response.text.strip()[:300]
