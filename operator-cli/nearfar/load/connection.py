"""One HTTP/1.1 connection that says when each piece of an answer came.

httptools parses. What is measured is read from the clock where the loop hands the bytes over,
before anything else is done with them: docs/decisions/0012 has why no ready client does that.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, cast

import httptools


class Answer(Protocol):
    """Takes an answer as it comes; instants are of time.perf_counter."""

    def head(self, status: int, headers: dict[str, str], at: float) -> None:
        """The head came; names of headers are in lower case."""

    def body(self, data: bytes, at: float) -> None:
        """A piece of the body came."""


class Broken(ConnectionError):
    """The connection ended before the answer did. `began`: some of it had come."""

    def __init__(self, why: str, *, began: bool) -> None:
        super().__init__(why)
        self.why = why
        self.began = began


class Connection(asyncio.Protocol):
    """Carries one request after the other."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._at = 0.0
        self._headers: dict[str, str] = {}
        self._began = self._has_head = False
        self._parser = httptools.HttpResponseParser(self)

    async def ask(self, request: bytes, answer: Answer) -> None:
        """Send a whole request, and give its answer away until its end.

        Raises:
            Broken: the connection, or what came over it, ended before that.
        """
        if self._transport is None or not self.is_open:
            raise Broken("closed", began=False)
        self._answer = answer
        self._began = self._has_head = False
        self._headers = {}
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            await self._done
        finally:
            self._answer = self._done = None

    def close(self) -> None:
        """Close at once: an answer that is under way is of no use any more."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        self._at = time.perf_counter()
        if self._answer is None:  # nothing was asked
            self.close()
            return
        self._began = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._end(Broken("not_http", began=False))
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        framed = self._headers.keys() & {"content-length", "transfer-encoding"}
        if self._has_head and not framed and error is None:
            self._end()  # an answer without a length ends with its connection
        why = "connection_closed" if error is None else type(error).__name__
        self._end(Broken(why, began=self._began))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer, 100 or 103: the real one follows
            self._headers = {}
            return
        self._has_head = True
        if self._answer is not None:
            self._answer.head(status, self._headers, self._at)

    def on_body(self, data: bytes) -> None:
        if self._answer is not None:
            self._answer.body(data, self._at)

    def on_message_complete(self) -> None:
        if self._has_head:
            self.is_open = self.is_open and self._parser.should_keep_alive()
            self._end()

    def _end(self, error: Exception | None = None) -> None:
        if self._done is None or self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)
