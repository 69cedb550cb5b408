"""Store port over asyncio's streams: a Redis, spoken to by the edge's own protocol code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from edge_frontend import redis_commands as commands
from edge_frontend import resp
from edge_frontend.errors import StoreDown
from edge_frontend.ports import Operation, Result

_READ_BYTES = 65_536
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PlainStore:
    """A Redis by its address; an idle connection is used again, one batch at a time."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        parts = urlsplit(address)
        self._at = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._hello = commands.hello(
            unquote(parts.username or ""), unquote(parts.password or ""), parts.path.strip("/")
        )
        self._timeout_s = timeout_ms / 1000
        self._idle: list[_Connection] = []

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        request = b"".join([resp.command(*commands.parts(operation)) for operation in operations])
        try:
            async with asyncio.timeout(self._timeout_s):
                replies, trips = await self._ask(request, len(operations))
        except (TimeoutError, OSError, EOFError) as error:
            raise StoreDown("The store does not answer.") from error
        except resp.ProtocolError as error:
            raise StoreDown("The store answered out of order.") from error
        results = [commands.result(*pair) for pair in zip(operations, replies, strict=True)]
        return results, trips

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _ask(self, request: bytes, count: int) -> tuple[list[resp.Value], int]:
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._on(connection, request, count), 1
            except (OSError, EOFError):
                continue  # it was closed meanwhile
        connection = await asyncio.open_connection(*self._at)
        hello = b"".join(self._hello)
        replies = await self._on(connection, hello + request, len(self._hello) + count)
        greeted, rest = replies[: len(self._hello)], replies[len(self._hello) :]
        if any(isinstance(reply, resp.RespError) for reply in greeted):
            self._idle.clear()
            raise StoreDown("The store refused the greeting.")
        return rest, 2

    async def _on(self, connection: _Connection, request: bytes, count: int) -> list[resp.Value]:
        """One batch; a connection on which it did not end in order is closed."""
        reader, writer = connection
        replies, parser = list[resp.Value](), resp.Reader()
        try:
            writer.write(request)
            while len(replies) < count:
                data = await reader.read(_READ_BYTES)
                if not data:
                    raise EOFError
                parser.feed(data)
                while len(replies) < count and (reply := parser.get()) is not resp.NEED_MORE:
                    replies.append(reply)
        except BaseException:
            writer.close()
            raise
        self._idle.append(connection)
        return replies
