"""The edge's own component with three waits in it, each asked for by a header of the request.

Everything else is the real thing, unchanged: this module is the entry in app.py's place, and puts
itself around three of its steps. It is built for the attribution benchmark alone.

    x-slow-start-ms         before t0 is noted, where an instance's start lies
    x-slow-authenticate-ms  before the key is verified
    x-slow-forward-ms       after first content came, before it is forwarded
"""

from __future__ import annotations

from typing import Any

from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types

import app
from edge_frontend.adapters.wasi_clock import WasiClock
from edge_frontend.adapters.wasi_http import WasiSink
from edge_frontend.caller import Caller
from edge_frontend.carriage import Carriage
from edge_frontend.exchange import Exchange

_CLOCK = WasiClock()
_authenticate = Exchange.authenticate
_stream = Carriage.stream
_write = WasiSink.write


class HttpHandler(app.HttpHandler):
    """Waits before the real handler notes t0."""

    async def handle(self, request: types.Request) -> types.Response:
        for name, value in request.get_headers().copy_all():
            if name.lower() == "x-slow-start-ms":
                await _CLOCK.sleep_ms(float(bytes(value)))
        return await super().handle(request)


# The client's ends whose first content is to be held back: (their request, for how long).
_LATE: dict[int, tuple[Exchange, float]] = {}


async def write(self: WasiSink, data: bytes) -> bool:
    late = _LATE.get(id(self))
    if late is not None and "t4" in late[0].account.instants:
        del _LATE[id(self)]
        await _CLOCK.sleep_ms(late[1])
    return await _write(self, data)


async def authenticate(self: Exchange) -> Caller:
    await _CLOCK.sleep_ms(float(self.header("x-slow-authenticate-ms") or 0))
    return await _authenticate(self)


async def stream(self: Carriage, sink: Any) -> None:
    wait_ms = float(self._x.header("x-slow-forward-ms") or 0)
    if wait_ms:
        _LATE[id(sink)] = self._x, wait_ms
    try:
        await _stream(self, sink)
    finally:
        _LATE.pop(id(sink), None)


Exchange.authenticate = authenticate  # type: ignore[method-assign]
Carriage.stream = stream  # type: ignore[method-assign]
WasiSink.write = write  # type: ignore[method-assign]
