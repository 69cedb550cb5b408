"""Sends bytes to a server and reads the first answer that it gives, if it gives one."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import httptools

PATIENCE_S = 15.0


@dataclass(slots=True)
class Heard:
    """What came back. `closed`: nothing did; `late`: it did not end in time."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    late: bool = False

    @property
    def closed(self) -> bool:
        """Whether the server ended the connection without an answer."""
        return self.status < 200 and not self.late


class _Reader:
    """Fills in what was heard, as the parser finds it."""

    def __init__(self) -> None:
        self.heard = Heard()
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.heard.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.heard.status = self.parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.heard.body += data

    def on_message_complete(self) -> None:
        # An interim answer (100 Continue) is none yet.
        if self.heard.status >= 200:
            self.heard.whole = True


async def ask(host: str, port: int, sent: bytes, *, head: bool, leave: bool) -> Heard:
    """Send the bytes and read one answer; `head`: it has no body, `leave`: send no more after."""
    reader, writer = await asyncio.open_connection(host, port)
    found = _Reader()
    try:
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                writer.write(sent)
                await writer.drain()
                if leave:
                    writer.write_eof()
            await _read(reader, found, head)
    except TimeoutError:
        found.heard.late = True
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return found.heard


async def _read(reader: asyncio.StreamReader, found: _Reader, head: bool) -> None:
    heard = found.heard
    while not heard.whole:
        try:
            data = await reader.read(65_536)
        except ConnectionError:
            return
        if not data:
            # Without a length the end of the connection is the end of the body.
            heard.whole = heard.status > 0 and not (
                heard.headers.keys() & {"content-length", "transfer-encoding"}
            )
            return
        with contextlib.suppress(httptools.HttpParserError):
            found.parser.feed_data(data)
        if head and heard.status >= 200:
            heard.whole = True
