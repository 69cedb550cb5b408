"""How far the edge is from its store and its model servers, timed by the edge's own clock.

For a key with the permission `trace`. Each way is gone a bounded number of times, one after the
other: a batch of one read to the store, a TCP connection to a model server where the host gives
sockets, and an HTTP exchange with it over the host's own client, as a model call has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from . import admission, forward, revocations
from .errors import BadRequest, EdgeError, Forbidden, NotFound, StoreDown
from .exchange import Exchange
from .forward import LAST_WORD_MS
from .health import PROBE_TIMEOUT_MS
from .ports import Get
from .routes import Upstream

USUAL_COUNT = 5
MOST_COUNT = 20
# The whole probe: far below the 30 s that Akamai Functions give a request.
BUDGET_MS = 10_000
# An answer is read to its end, so that a host that keeps connections can; a longer one is not.
MOST_BYTES = 65_536
_PORTS = {"http": 80, "https": 443}
UNSEEN = "the host's HTTP client does not say whether it used a connection again"
NO_SOCKETS = "this host gives the request path no sockets"


async def handle(x: Exchange) -> tuple[int, dict[str, Any]]:
    """Go the ways and answer their times in milliseconds.

    Raises:
        Forbidden: for a key without the permission `trace`.
        BadRequest: for a count out of its bounds.
        NotFound: for an upstream that is not in the routes.
    """
    claims = await x.authenticate()
    if "trace" not in claims.permissions:
        raise Forbidden("This key does not have the permission `trace`.")
    revocations.check(x)
    count, upstreams = _asked(x)
    until_ms = x.ports.clock.now_ms() + _budget_ms(x)
    return 200, {
        "object": "nearfar.probe",
        "region": x.settings.region,
        "environment": x.settings.environment,
        "instance": x.account.labels["instance"],
        "asked": count,
        "reuse": UNSEEN,
        "store": await _store(x, count, until_ms),
        "upstreams": {each.name: await _upstream(x, each, count, until_ms) for each in upstreams},
    }


def _asked(x: Exchange) -> tuple[int, tuple[Upstream, ...]]:
    query = parse_qs(x.inbound.path.partition("?")[2], keep_blank_values=True)
    text = query.get("count", [str(USUAL_COUNT)])[0]
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= MOST_COUNT):
        raise BadRequest(f"count must be a whole number from 1 to {MOST_COUNT}.", param="count")
    known = x.settings.routes.upstreams
    names = query.get("upstream", list(known))
    if not set(names) <= set(known):
        raise NotFound("There is no such upstream; GET /readyz lists them.", param="upstream")
    return int(text), tuple(known[name] for name in dict.fromkeys(names))


def _budget_ms(x: Exchange) -> float:
    if not x.settings.deadline_ms:
        return BUDGET_MS
    return min(BUDGET_MS, admission.left_ms(x) - LAST_WORD_MS)


async def _store(x: Exchange, count: int, until_ms: float) -> dict[str, Any]:
    if x.ports.store is None:
        return {"trips": [], "not_available": "there is no store"}
    clock, trips = x.ports.clock, list[dict[str, Any]]()
    while len(trips) < count and clock.now_ms() < until_ms:
        began_ms, before = clock.now_ms(), x.account.near_trips
        try:
            await x.near(Get("nf:1:ready"))
        except StoreDown as error:
            return {"trips": trips, "not_available": error.message}
        gone = x.account.near_trips - before
        trips.append({"ms": _since(x, began_ms), "round_trips": gone})
    return _told({"trips": trips}, len(trips), count)


async def _upstream(x: Exchange, upstream: Upstream, count: int, until_ms: float) -> dict[str, Any]:
    return {
        "question": f"GET {upstream.path}/v1/models",
        "connecting": await _connecting(x, upstream, count, until_ms),
        "exchanges": await _exchanges(x, upstream, count, until_ms),
    }


async def _connecting(
    x: Exchange, upstream: Upstream, count: int, until_ms: float
) -> dict[str, Any]:
    """The look-up of the name, and TCP connections that carry nothing: one round trip each."""
    found: dict[str, Any] = {"look_up_ms": None, "connect_ms": []}
    sockets, clock = x.ports.sockets, x.ports.clock
    if sockets is None:
        return found | {"not_available": NO_SOCKETS}
    parts = urlsplit(f"//{upstream.authority}")
    port = parts.port or _PORTS[upstream.scheme]
    times: list[float] = found["connect_ms"]
    try:
        began_ms = clock.now_ms()
        address = await sockets.look_up(parts.hostname or "", PROBE_TIMEOUT_MS)
        found["look_up_ms"] = _since(x, began_ms)
        while len(times) < count and clock.now_ms() < until_ms:
            began_ms = clock.now_ms()
            await sockets.connect(address, port, PROBE_TIMEOUT_MS)
            times.append(_since(x, began_ms))
    except EdgeError as error:
        return found | {"not_available": error.message}
    return _told(found, len(times), count)


async def _exchanges(
    x: Exchange, upstream: Upstream, count: int, until_ms: float
) -> dict[str, Any]:
    """Small questions with their answers; what the server needs for one is within the time."""
    done: list[dict[str, Any]] = []
    while len(done) < count and x.ports.clock.now_ms() < until_ms:
        try:
            done.append(await _exchange(x, upstream))
        except EdgeError as error:
            return {"done": done, "not_available": error.message}
    return _told({"done": done}, len(done), count)


async def _exchange(x: Exchange, upstream: Upstream) -> dict[str, Any]:
    call = forward.probe(x, upstream)
    call = replace(
        call,
        connect_timeout_ms=min(PROBE_TIMEOUT_MS, call.connect_timeout_ms),
        first_byte_timeout_ms=min(PROBE_TIMEOUT_MS, call.first_byte_timeout_ms),
        between_bytes_timeout_ms=min(PROBE_TIMEOUT_MS, call.between_bytes_timeout_ms),
    )
    began_ms = x.ports.clock.now_ms()
    x.account.far_trips += 1
    answer = await x.ports.upstream.send(call)
    found = {"status": answer.status, "head_ms": _since(x, began_ms), "end_ms": None}
    size = 0
    try:
        while data := await answer.body.read():
            size += len(data)
            if size > MOST_BYTES:
                return found
    finally:
        answer.body.close()
    return found | {"end_ms": _since(x, began_ms)}


def _told(found: dict[str, Any], done: int, count: int) -> dict[str, Any]:
    late = None if done == count else "the time for a probe was over before all were done"
    return found | {"not_available": late}


def _since(x: Exchange, began_ms: float) -> float:
    return round(x.ports.clock.now_ms() - began_ms, 3)
