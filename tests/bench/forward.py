"""The way to the upstream that both bare forwarding components take."""

import os
from dataclasses import dataclass
from typing import Any

import componentize_py_async_support as guest
from componentize_py_async_support.streams import ByteStreamReader, ByteStreamWriter
from spin_sdk import wit
from spin_sdk.http import _trailers_future, _unit_future
from spin_sdk.wit.imports import wasi_http_client_0_3_0 as client
from spin_sdk.wit.imports.wasi_http_types_0_3_0 import (
    Fields,
    Method_Post,
    Request,
    Response,
    Scheme_Http,
)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The upstream's answer, its body not read yet."""

    status: int
    fields: list[tuple[str, bytes]]
    body: ByteStreamReader
    trailers: Any
    alive: tuple[Any, ...]  # must be kept until the body has been read, else it comes empty

    def response(self, body: ByteStreamReader, trailers: Any) -> tuple[Response, Any]:
        """The response to the client with this body, and the future of its transmission."""
        response, sent = Response.new(Fields.from_list(self.fields), body, trailers)
        response.set_status_code(self.status)
        return response, sent


async def forward(request: Request) -> Forwarded:
    """Sends the request's body to the upstream named by UPSTREAM (host:port)."""
    source, trailers = Request.consume_body(request, _unit_future())
    data = bytearray()
    with source:
        while not source.writer_dropped:
            data += await source.read(65536)
    sink, out_body = wit.byte_stream()
    guest.spawn(_write(sink, bytes(data)))
    fields = [("content-type", b"application/json"), ("content-length", b"%d" % len(data))]
    out, sent = Request.new(Fields.from_list(fields), out_body, _trailers_future(), None)
    out.set_method(Method_Post())
    out.set_scheme(Scheme_Http())
    out.set_authority(os.environ["UPSTREAM"])
    out.set_path_with_query("/v1/chat/completions")
    upstream = await client.send(out)
    status, all_fields = upstream.get_status_code(), upstream.get_headers().copy_all()
    kept = [pair for pair in all_fields if pair[0] == "content-type"]
    body, its_trailers = Response.consume_body(upstream, _unit_future())
    return Forwarded(status, kept, body, its_trailers, (trailers, sent, out, upstream))


async def _write(sink: ByteStreamWriter, data: bytes) -> None:
    with sink:
        await sink.write_all(data)
