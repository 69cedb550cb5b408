"""A bare component that answers one short JSON body: what a host and Python cost at the least."""

import componentize_py_async_support as guest
from componentize_py_async_support.streams import ByteStreamWriter
from spin_sdk import wit
from spin_sdk.http import _trailers_future
from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports.wasi_http_types_0_3_0 import Fields, Request, Response

BODY = b'{"hello":"world"}'


class HttpHandler(Base):
    """The component's export."""

    async def handle(self, request: Request) -> Response:
        """Answers 200 without reading the request."""
        sink, body = wit.byte_stream()
        guest.spawn(_write(sink))
        fields = [("content-type", b"application/json"), ("content-length", b"%d" % len(BODY))]
        return Response.new(Fields.from_list(fields), body, _trailers_future())[0]


async def _write(sink: ByteStreamWriter) -> None:
    with sink:
        await sink.write_all(BODY)
