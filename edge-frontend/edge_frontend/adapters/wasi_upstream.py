"""Upstream port over wasi:http 0.3: the model server's side.

Facts of the host that this file rests on, each held to by tests/stack/test_client_gone.py and the
upstream contract: dropping the future of a sent request ends its connection, and a read that waits
on it; the futures of a request and of a body's trailers must live as long as the body is read.
"""

from __future__ import annotations

from collections.abc import Callable

import componentize_py_async_support as tasks
from componentize_py_async_support.futures import FutureReader
from componentize_py_async_support.streams import ByteStreamReader
from componentize_py_types import Err
from spin_sdk import wit
from spin_sdk.http import _trailers_future, _unit_future
from spin_sdk.wit.imports import wasi_http_client_0_3_0 as client
from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types

from ..errors import EdgeError, UpstreamBroke, UpstreamTimeout, UpstreamUnreachable
from ..ports import Answer, Call, Sink
from .waits import READ_BYTES, write_whole
from .wasi_http import WasiSink
from .wasi_pour import Pour

_SCHEMES: dict[str, type[types.Scheme_Http] | type[types.Scheme_Https]] = {
    "http": types.Scheme_Http,
    "https": types.Scheme_Https,
}
_TIMEOUTS = (
    types.ErrorCode_ConnectionTimeout,
    types.ErrorCode_ConnectionReadTimeout,
    types.ErrorCode_ConnectionWriteTimeout,
    types.ErrorCode_HttpResponseTimeout,
    types.ErrorCode_DnsTimeout,
)


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
            tasks.spawn(write_whole(writer, call.body))
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
        headers = tuple(
            (name.lower(), bytes(value)) for name, value in response.get_headers().copy_all()
        )
        status = response.get_status_code()
        stream, trailers = types.Response.consume_body(response, _unit_future())
        return Answer(status, headers, WasiSource(stream, trailers, sent))


class WasiSource:
    """The body of a model server's answer."""

    __slots__ = ("_closed", "_over", "_reading", "_sent", "_stream", "_trailers")

    def __init__(
        self, stream: ByteStreamReader, trailers: FutureReader, sent: FutureReader
    ) -> None:
        self._stream, self._trailers, self._sent = stream, trailers, sent
        self._closed = self._reading = self._over = False

    async def read(self) -> bytes:
        if not self._stream.writer_dropped and not self._closed:
            self._reading = True
            data: bytes = await self._stream.read(READ_BYTES)
            self._reading = False
            if data:
                return data
            if not self._stream.writer_dropped:
                return await self.read()
        if self._closed:
            self._drop()
            raise UpstreamBroke("The model call was ended.")
        if self._over:  # the trailers, which tell a clean end, can be read once
            return b""
        result = await self._trailers.read()
        self._over = True
        if isinstance(result, Err):
            raise _mapped_body(result.value)
        return b""

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        assert isinstance(sink, WasiSink)  # noqa: S101 a host's body pours into its own sink
        await sink.quiet()
        pour = Pour(self._stream, sink.writer, feed)
        self._reading, sink.pour = True, pour
        pour.start()
        try:
            had_enough = await pour.done
        finally:
            self._reading, sink.pour = False, None
        if not had_enough:
            piece = feed(await self.read())
            if piece:
                await sink.write(piece)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._sent.__exit__(None, None, None)
            if not self._reading:
                self._drop()

    def _drop(self) -> None:
        self._stream.__exit__(None, None, None)
        self._trailers.__exit__(None, None, None)


def _mapped(code: object) -> EdgeError:
    if isinstance(code, _TIMEOUTS):
        return UpstreamTimeout("The model server did not answer in time.")
    return UpstreamUnreachable("The model server cannot be reached.")


def _mapped_body(code: object) -> EdgeError:
    if isinstance(code, _TIMEOUTS):
        return UpstreamTimeout("The model server sent nothing for too long.")
    return UpstreamBroke("The model server broke off in the middle of its answer.")
