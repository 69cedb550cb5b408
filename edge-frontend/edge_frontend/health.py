"""Ready or not, and which dependency it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import forward
from .errors import EdgeError, StoreDown
from .exchange import Exchange
from .ports import Get
from .routes import Upstream

PROBE_TIMEOUT_MS = 2_000  # who asks for readiness gives up soon: Kubernetes waits for one second


async def ready(x: Exchange) -> tuple[int, dict[str, Any]]:
    """Ask the near store and each upstream once; answers a status and a document."""
    checks = {"settings": "ok", "store": await _store(x)}
    for name, upstream in x.settings.routes.upstreams.items():
        checks[f"upstream {name}"] = await _upstream(x, upstream)
    bad = [name for name, state in checks.items() if state not in ("ok", "none")]
    document: dict[str, Any] = {"status": "ready" if not bad else "not ready", "checks": checks}
    if bad:
        document["not_ready"] = bad
    return (503 if bad else 200), document


async def _store(x: Exchange) -> str:
    if x.ports.store is None:
        return "none"
    try:
        await x.near(Get("nf:1:ready"))
    except StoreDown:
        return "does not answer"
    return "ok"


async def _upstream(x: Exchange, upstream: Upstream) -> str:
    probe = forward.probe(x, upstream)
    probe = replace(
        probe,
        connect_timeout_ms=min(PROBE_TIMEOUT_MS, probe.connect_timeout_ms),
        first_byte_timeout_ms=min(PROBE_TIMEOUT_MS, probe.first_byte_timeout_ms),
    )
    try:
        answer = await x.ports.upstream.send(probe)
    except EdgeError as error:
        return error.message
    answer.body.close()
    if answer.status in (401, 403):
        return "refuses the edge's key"
    return "ok" if answer.status < 500 else f"answers {answer.status}"
