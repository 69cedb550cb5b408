"""A bare component that hands the upstream's body stream on, so that no byte passes Python."""

from collections import deque
from typing import Any

from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports.wasi_http_types_0_3_0 import Request, Response

from bench.forward import forward

# Nothing tells the guest when the client has all of a stream that it handed on, and letting go
# of the upstream's answer ends it. A host gives an instance at most 16 requests at once.
ALIVE: deque[tuple[Any, ...]] = deque(maxlen=64)


class HttpHandler(Base):
    """The component's export."""

    async def handle(self, request: Request) -> Response:
        """Forwards the request and gives the answer's stream as its own."""
        answer = await forward(request)
        response, sent = answer.response(answer.body, answer.trailers)
        ALIVE.append((answer, sent, response))
        return response
