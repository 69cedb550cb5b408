"""A streaming client whose every event has the time it came, and whose end the test chooses."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from stack.answers import DONE, Json, assembled, events
from stack.caller import CHAT, Caller
from stack.edges import Edge

# On a loaded machine; a test that waits for something else is stopped by its own limits.
TIMEOUT_S = 30.0


@dataclass(slots=True)
class Taken:
    """What came of one answer, and when (`time.monotonic`)."""

    cache: str = ""
    body: bytes = b""
    first_content_at: float | None = None
    ended_at: float = 0.0
    broke: bool = False  # the transfer ended before its end
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def events(self) -> list[Any]:
        """The events that came."""
        return events(self.body)

    @property
    def done(self) -> bool:
        """Whether the stream came to its own end."""
        return bool(self.events) and self.events[-1] == DONE

    @property
    def error(self) -> str | None:
        """The code of the error event at the end, if there is one."""
        last = self.events[-1] if self.events else None
        return last["error"]["code"] if isinstance(last, dict) and "error" in last else None

    @property
    def text(self) -> str:
        """The first choice's content."""
        answer: Json = assembled(event for event in self.events if "choices" in event)
        return answer["choices"][0]["message"]["content"] if answer["choices"] else ""

    def add(self, data: bytes) -> None:
        """Take what came now."""
        self.body += data
        if self.first_content_at is None and b'"content":"' in self.body.replace(b'""', b""):
            self.first_content_at = time.monotonic()


async def take(
    session: httpx.AsyncClient, edge: Edge, caller: Caller, body: Json, **headers: str
) -> Taken:
    """Read a stream to its end and note when things came."""
    taken = Taken()
    async with session.stream(
        "POST", edge.url + CHAT, json=body, headers=caller.headers(**headers)
    ) as answer:
        assert answer.status_code == 200, await answer.aread()
        taken.cache, taken.headers = answer.headers["x-cache"], answer.headers
        try:
            async for data in answer.aiter_raw():
                taken.add(data)
        except httpx.HTTPError:
            taken.broke = True
    taken.ended_at = time.monotonic()
    return taken


@asynccontextmanager
async def sessions() -> AsyncIterator[httpx.AsyncClient]:
    """A client with room for many streams."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S, limits=limits) as session:
        yield session


@dataclass(slots=True)
class Leaver:
    """A client on a bare socket, which goes away in the middle."""

    _socket: socket.socket
    received: bytes = b""

    def read_until(self, count: int, what: bytes) -> None:
        """Read until `what` has come so many times."""
        while self.received.count(what) < count:
            data = self._socket.recv(65536)
            assert data, f"the answer ended before {count} of {what!r}: {self.received!r}"
            self.received += data

    def leave(self, how: str) -> float:
        """Close with FIN, or with RST as a killed process that left bytes unread; says when."""
        if how == "rst":
            linger = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()
        return time.monotonic()


@contextmanager
def leaver(edge: Edge, caller: Caller, body: Json, **headers: str) -> Iterator[Leaver]:
    """Send a request and leave the answer to the test."""
    request = httpx.Request("POST", edge.url + CHAT, json=body, headers=caller.headers(**headers))
    head = [f"POST {CHAT} HTTP/1.1", *(f"{k}: {v}" for k, v in request.headers.items())]
    url = httpx.URL(edge.url)
    with socket.create_connection((url.host, url.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode() + request.content)
        yield Leaver(connection)
