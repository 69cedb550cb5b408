"""Inbound, upstream and sink ports over wasi:http 0.3.

Facts of the host that this file rests on, each with a test in tests/edge_frontend/host:
a write of no bytes completes when the client still listens and says `dropped` when it does not;
dropping the future of a sent request ends its connection, and a read that waits on it;
the futures of a request and of a body's trailers must live as long as the body is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import componentize_py_async_support as tasks
from componentize_py_types import Err, Ok
from spin_sdk import wit
from spin_sdk.http import _trailers_future, _unit_future
from spin_sdk.wit.imports import wasi_http_client_0_3_0 as client
from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types

from ..account import fault_line
from ..errors import BadRequest, BodyTooLarge, EdgeError, UpstreamBroke, UpstreamTimeout, UpstreamUnreachable
from ..ports import Answer, Call, Reply
from .wasi_pour import Pour

READ_BYTES = 65_536
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
_SCHEMES = {"http": types.Scheme_Http, "https": types.Scheme_Https}
_TIMEOUTS = (
    types.ErrorCode_ConnectionTimeout,
    types.ErrorCode_ConnectionReadTimeout,
    types.ErrorCode_ConnectionWriteTimeout,
    types.ErrorCode_HttpResponseTimeout,
    types.ErrorCode_DnsTimeout,
)


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


class WasiUpstream:
    """Model servers, asked through the host's HTTP client."""

    async def send(self, call: Call) -> Answer:
        options = types.RequestOptions()
        options.set_connect_timeout(call.connect_timeout_ms * 1_000_000)
        options.set_first_byte_timeout(call.first_byte_timeout_ms * 1_000_000)
        options.set_between_bytes_timeout(call.between_bytes_timeout_ms * 1_000_000)
        contents = None
        if call.body:
            writer, contents = wit.byte_stream()
            tasks.spawn(_write(writer, call.body))
        fields = types.Fields.from_list(list(call.headers))
        request, sent = types.Request.new(fields, contents, _trailers_future(), options)
        request.set_method(types.Method_Post() if call.body else types.Method_Get())
        request.set_scheme(_SCHEMES[call.scheme]())
        request.set_authority(call.authority)
        request.set_path_with_query(call.path)
        try:
            response = await client.send(request)
        except Err as error:
            raise _mapped(error.value) from error
        headers = tuple((name.lower(), bytes(value)) for name, value in response.get_headers().copy_all())
        status = response.get_status_code()
        stream, trailers = types.Response.consume_body(response, _unit_future())
        return Answer(status, headers, WasiSource(stream, trailers, sent))


class WasiSource:
    """The body of a model server's answer."""

    __slots__ = ("_closed", "_reading", "_sent", "_stream", "_trailers")

    def __init__(self, stream: wit.ByteStreamReader, trailers: object, sent: object) -> None:
        self._stream, self._trailers, self._sent = stream, trailers, sent
        self._closed = self._reading = False

    async def read(self) -> bytes:
        if not self._stream.writer_dropped and not self._closed:
            self._reading = True
            data = await self._stream.read(READ_BYTES)
            self._reading = False
            if data:
                return data
            if not self._stream.writer_dropped:
                return await self.read()
        if self._closed:
            self._drop()
            raise UpstreamBroke("The model call was ended.")
        result = await self._trailers.read()
        if isinstance(result, Err):
            raise _mapped_body(result.value)
        return b""

    async def pour(self, sink: WasiSink, feed: Callable[[bytes], bytes]) -> None:
        await sink.quiet()
        pour = Pour(self._stream, sink.writer, feed)
        self._reading, sink.pour = True, pour
        pour.start()
        try:
            had_enough = await pour.done
        finally:
            self._reading, sink.pour = False, None
        if not had_enough:
            feed(await self.read())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._sent.__exit__(None, None, None)
            if not self._reading:
                self._drop()

    def _drop(self) -> None:
        self._stream.__exit__(None, None, None)
        self._trailers.__exit__(None, None, None)


class WasiSink:
    """The client's end of a streamed body."""

    __slots__ = ("_probing", "_trailers", "pour", "writer")

    def __init__(self, writer: wit.ByteStreamWriter, trailers: object) -> None:
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

    def end(self) -> None:
        self.writer.__exit__(None, None, None)
        self._trailers = None


def respond(reply: Reply) -> types.Response:
    """Hand a reply to the host; its body is written after the head has gone."""
    fields = types.Fields.from_list([(name, value.encode()) for name, value in reply.headers])
    if isinstance(reply.body, bytes):
        contents = None
        if reply.body:
            writer, contents = wit.byte_stream()
            tasks.spawn(_write(writer, reply.body))
        response, _ = types.Response.new(fields, contents, _trailers_future())
    else:
        writer, contents = wit.byte_stream()
        failing, trailers = _failable_trailers()
        tasks.spawn(_produce(reply, WasiSink(writer, failing)))
        response, _ = types.Response.new(fields, contents, trailers)
    response.set_status_code(reply.status)
    return response


async def _produce(reply: Reply, sink: WasiSink) -> None:
    assert not isinstance(reply.body, bytes)
    try:
        await reply.body(sink)
    except Exception as error:  # a fault of ours must not end the instance and its other requests
        print(fault_line(error, dict(reply.headers).get("x-request-id", "")), flush=True)
        sink.abort()
    sink.end()


async def _write(writer: wit.ByteStreamWriter, data: bytes) -> None:
    with writer:
        await writer.write_all(data)


async def _fail(trailers: object, failure: object) -> None:
    await trailers.write(Err(failure))


def _failable_trailers() -> tuple[object, object]:
    return wit.result_option_wasi_http_types_0_3_0_fields_wasi_http_types_0_3_0_error_code_future(lambda: Ok(None))


def _mapped(code: object) -> EdgeError:
    if isinstance(code, _TIMEOUTS):
        return UpstreamTimeout("The model server did not answer in time.")
    return UpstreamUnreachable("The model server cannot be reached.")


def _mapped_body(code: object) -> EdgeError:
    if isinstance(code, _TIMEOUTS):
        return UpstreamTimeout("The model server sent nothing for too long.")
    return UpstreamBroke("The model server broke off in the middle of its answer.")
