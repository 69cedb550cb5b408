"""A bare component that copies the upstream's answer, each chunk through Python."""

import componentize_py_async_support as guest
from componentize_py_async_support.streams import ByteStreamWriter
from spin_sdk import wit
from spin_sdk.http import _trailers_future
from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports.wasi_http_types_0_3_0 import Request, Response

from bench.forward import Forwarded, forward


class HttpHandler(Base):
    """The component's export."""

    async def handle(self, request: Request) -> Response:
        """Forwards the request and copies the answer."""
        answer = await forward(request)
        sink, body = wit.byte_stream()
        guest.spawn(_copy(answer, sink))
        return answer.response(body, _trailers_future())[0]


async def _copy(answer: Forwarded, sink: ByteStreamWriter) -> None:
    source = answer.body
    with source, sink:
        while not source.writer_dropped and not sink.reader_dropped:
            data = await source.read(16384)
            if data:
                await sink.write_all(data)
