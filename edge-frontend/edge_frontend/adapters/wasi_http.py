"""Inbound and sink ports over wasi:http 0.3: the client's side.

A write of no bytes completes while the client still listens and says `dropped` when it does not,
which tests/stack/test_client_gone.py holds the host to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import componentize_py_async_support as tasks
from componentize_py_async_support.futures import FutureReader, FutureWriter
from componentize_py_async_support.streams import ByteStreamWriter
from componentize_py_types import Err, Ok
from spin_sdk import wit
from spin_sdk.http import _trailers_future, _unit_future
from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types

from ..account import fault_line
from ..errors import BadRequest, BodyTooLarge
from ..ports import Producer, Reply
from .waits import READ_BYTES, write_whole
from .wasi_pour import Pour

_METHODS = {
    types.Method_Get: "GET",
    types.Method_Head: "HEAD",
    types.Method_Post: "POST",
    types.Method_Put: "PUT",
    types.Method_Delete: "DELETE",
    types.Method_Options: "OPTIONS",
    types.Method_Patch: "PATCH",
    types.Method_Connect: "CONNECT",
    types.Method_Trace: "TRACE",
}


class WasiInbound:
    """The request as the host handed it over."""

    def __init__(self, request: types.Request) -> None:
        self._request = request
        self.method = _METHODS.get(type(request.get_method()), "OTHER")
        self.path = request.get_path_with_query() or "/"
        self.headers: Sequence[tuple[str, bytes]] = [
            (name.lower(), bytes(value)) for name, value in request.get_headers().copy_all()
        ]

    async def body(self, limit_bytes: int) -> bytes:
        expected = self._content_length()
        if expected is not None and expected > limit_bytes:
            raise BodyTooLarge(f"The body must be at most {limit_bytes} bytes.")
        stream, trailers = types.Request.consume_body(self._request, _unit_future())
        pieces, size = list[bytes](), 0
        with stream, trailers:
            # A known length saves the read that would only say that nothing more comes.
            while size != expected and not stream.writer_dropped:
                piece = await stream.read(READ_BYTES)
                pieces.append(piece)
                size += len(piece)
                if size > limit_bytes:
                    raise BodyTooLarge(f"The body must be at most {limit_bytes} bytes.")
        if expected is not None and size < expected:
            raise BadRequest("The body ended before its content-length.")
        return b"".join(pieces)

    def _content_length(self) -> int | None:
        for name, value in self.headers:
            if name == "content-length" and value.isdigit():
                return int(value)
        return None


class WasiSink:
    """The client's end of a streamed body."""

    __slots__ = ("_probing", "_trailers", "pour", "writer")

    def __init__(self, writer: ByteStreamWriter, trailers: FutureWriter) -> None:
        self.writer, self._trailers = writer, trailers
        self.pour: Pour | None = None
        self._probing: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> bool:
        await self.quiet()
        if data and not self.writer.reader_dropped:
            await self.writer.write_all(data)
        return not self.writer.reader_dropped

    async def is_there(self) -> bool:
        if self.pour is not None:
            self.pour.probe()
        elif self.writer.handle is not None and not self.writer.reader_dropped:
            self._probing = asyncio.get_running_loop().create_future()
            await self.writer.write(b"")
            self._probing.set_result(None)
            self._probing = None
        return not self.writer.reader_dropped

    async def quiet(self) -> None:
        """Wait until no probe is under way: a writer does one thing at a time."""
        if self._probing is not None:
            await self._probing

    def abort(self) -> None:
        failure = types.ErrorCode_InternalError(None)
        tasks.spawn(_fail(self._trailers, failure))
        self._trailers = None

    async def end(self) -> None:
        """Say that nothing more comes."""
        await self.quiet()  # a writer that is busy cannot be dropped
        self.writer.__exit__(None, None, None)
        self._trailers = None


def respond(reply: Reply) -> types.Response:
    """Hand a reply to the host; its body is written after the head has gone."""
    fields = types.Fields.from_list([(name, value.encode()) for name, value in reply.headers])
    if isinstance(reply.body, bytes):
        contents = None
        if reply.body:
            writer, contents = wit.byte_stream()
            tasks.spawn(write_whole(writer, reply.body))
        response, _ = types.Response.new(fields, contents, _trailers_future())
    else:
        writer, contents = wit.byte_stream()
        failing, trailers = _failable_trailers()
        request_id = dict(reply.headers).get("x-request-id", "")
        tasks.spawn(_produce(reply.body, WasiSink(writer, failing), request_id))
        response, _ = types.Response.new(fields, contents, trailers)
    response.set_status_code(reply.status)
    return response


async def _produce(body: Producer, sink: WasiSink, request_id: str) -> None:
    try:
        await body(sink)
    except Exception as error:  # noqa: BLE001 a fault of ours must not end the instance and its other requests
        print(fault_line(error, request_id), flush=True)
        sink.abort()
    await sink.end()


async def _fail(trailers: FutureWriter, failure: object) -> None:
    await trailers.write(Err(failure))


def _failable_trailers() -> tuple[FutureWriter, FutureReader]:
    return wit.result_option_wasi_http_types_0_3_0_fields_wasi_http_types_0_3_0_error_code_future(
        lambda: Ok(None)
    )
