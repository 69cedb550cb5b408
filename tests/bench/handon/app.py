"""A bare component that hands the upstream's body stream on, so that no byte passes Python.

A bound to compare with, not a way to build an edge: nothing tells the guest when the client has
all of a stream that it handed on. Its futures resolve at once, and when the guest lets go of the
upstream's answer, or the host of an instance whose tasks have ended, the stream breaks off. So
every request leaves a task that waits longer than the bench's streams last.
"""

from typing import Any

import componentize_py_async_support as guest
from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports import wasi_clocks_monotonic_clock_0_3_0 as clock
from spin_sdk.wit.imports.wasi_http_types_0_3_0 import Request, Response

from bench.forward import forward

HOLD_NS = 3_000_000_000


class HttpHandler(Base):
    """The component's export."""

    async def handle(self, request: Request) -> Response:
        """Forwards the request and gives the answer's stream as its own."""
        answer = await forward(request)
        response, sent = answer.response(answer.body, answer.trailers)
        guest.spawn(_hold(answer, sent, response))
        return response


async def _hold(*_alive: Any) -> None:
    await clock.wait_for(HOLD_NS)
