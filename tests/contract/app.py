"""A component for tests alone: runs the contracts through the real adapters, inside the host.

    GET /clock
    GET /store?address=redis://…&prefix=…
    GET /upstream?scenes={"whole": {"authority": "127.0.0.1:1", "body": "…"}, …}

Each answers JSON: the name of every check and what was wrong, null where nothing was. Addresses
come in the query, so that no host needs settings of its own.
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401  nothing can be imported once the component is built
import json
import traceback
from collections.abc import Awaitable, Callable, Iterable
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qs

from spin_sdk import wit
from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types

from contract import clock, store, upstream
from edge_frontend.adapters.wasi_clock import WasiClock
from edge_frontend.adapters.wasi_http import WasiInbound, WasiSink, respond
from edge_frontend.adapters.wasi_redis import WasiRedis
from edge_frontend.adapters.wasi_upstream import WasiUpstream
from edge_frontend.ports import Call, Reply, Sink, Store

IS_SPIN = find_spec("spin_sdk.wit.imports.spin_variables_variables_3_0_0") is not None
if IS_SPIN:
    from edge_frontend.adapters import spin_host

LONG_MS = 5_000
_CLOCK = WasiClock()
_WAITING = ("no head", "stalls")  # scenes whose end is a time-out

Given = dict[str, str]
Results = dict[str, str | None]


class HttpHandler(Base):
    """Runs one suite for each request."""

    async def handle(self, request: types.Request) -> types.Response:
        path, _, query = WasiInbound(request).path.partition("?")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        results = await _SUITES[path](given)
        body = json.dumps(results).encode()
        return respond(Reply(200, (("content-type", "application/json"),), body))


async def _clock(_: Given) -> Results:
    return await _run((check.__name__, check(_CLOCK)) for check in clock.CHECKS)


async def _store(given: Given) -> Results:
    opened, prefix = _opened(given["address"]), given["prefix"]
    checks = store.CHECKS if given["address"].startswith("kv:") else store.CHECKS + store.ATOMIC
    return await _run(
        (check.__name__, check(opened, _CLOCK, f"{prefix}:{check.__name__}")) for check in checks
    )


async def _upstream(given: Given) -> Results:
    scenes = json.loads(given["scenes"])

    def call(scene: str) -> Call:
        limit_ms = upstream.SHORT_MS if scene in _WAITING else LONG_MS
        return Call(
            scheme="http",
            authority=scenes[scene]["authority"],
            path="/v1/chat/completions",
            headers=(("content-type", b"application/json"),),
            body=scenes[scene]["body"].encode(),
            connect_timeout_ms=LONG_MS,
            first_byte_timeout_ms=limit_ms,
            between_bytes_timeout_ms=limit_ms,
        )

    asked = WasiUpstream()
    plain = [(check.__name__, check(asked, _CLOCK, call)) for check in upstream.CHECKS]
    poured = [(check.__name__, check(asked, call, _pipe)) for check in upstream.POURING]
    return await _run([*plain, *poured])


def _pipe() -> tuple[Sink, Callable[[], Awaitable[bytes]]]:
    """A sink as a client's body has it, whose other end is read here."""
    writer, reader = wit.byte_stream()
    sink = WasiSink(writer, None)
    reading = asyncio.ensure_future(_read(reader))

    async def arrived() -> bytes:
        await sink.end()
        return await reading

    return sink, arrived


async def _read(reader: Any) -> bytes:
    data = b""
    with reader:
        while not reader.writer_dropped:
            data += await reader.read(65_536)
    return data


def _opened(address: str) -> Store:
    if IS_SPIN:
        return spin_host.SpinStore(address, LONG_MS, _CLOCK)
    return WasiRedis(address, LONG_MS)


async def _run(checks: Iterable[tuple[str, Awaitable[None]]]) -> Results:
    results: Results = {}
    for name, check in checks:
        try:
            await check
        except Exception:  # noqa: BLE001  whatever it is, the test tells it
            results[name] = traceback.format_exc()
        else:
            results[name] = None
    return results


_SUITES: dict[str, Callable[[Given], Awaitable[Results]]] = {
    "/clock": _clock,
    "/store": _store,
    "/upstream": _upstream,
}
