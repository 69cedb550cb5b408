"""The client that measures streamed requests, over as many kept connections as are in flight."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit

from nearfar.exchange import Edge
from nearfar.load.connection import Broken, Connection
from nearfar.load.prompt import Prompt
from nearfar.load.reading import Reading, failure
from nearfar.load.telling import sample_of
from nearfar.runs.sample import Failure, Outcome, Phase, Sample

_PATH = "/v1/chat/completions"
_CONNECT_S = 10.0
# As much of an error's body is read.
_ERROR_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One request to be sent. `due_s` counts from the run's start; None in a closed loop."""

    i: int
    prompt: Prompt
    body: bytes = field(repr=False)
    due_s: float | None = None
    phase: Phase = "measured"
    block: int = 0
    arm: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How requests are sent: the account of time asked for or not, patience, headers besides."""

    trace: bool = True
    timeout_s: float = 180.0
    headers: Mapping[str, str] = field(default_factory=dict)
    keep_text: bool = False


@dataclass(slots=True)
class Seen:
    """What came of one request: instants on the run's clock, `zero` being its start."""

    zero: float
    sent_s: float
    headers_s: float | None = None
    end_s: float | None = None
    status: int | None = None
    connection: Literal["new", "reused"] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    refusal: bytearray = field(default_factory=bytearray)

    def head(self, status: int, headers: dict[str, str], at: float) -> None:
        """The head came."""
        self.status, self.headers, self.headers_s = status, headers, at - self.zero

    def body(self, data: bytes, at: float) -> None:
        """A piece of the body came."""
        if self.status == 200:
            self.reading.feed(data, at - self.zero)
        elif len(self.refusal) < _ERROR_BYTES:
            self.refusal += data


class Client:
    """Sends requests to one edge. It speaks HTTP/1.1, with TLS where the endpoint has it."""

    def __init__(self, edge: Edge, manner: Manner, zero: float) -> None:
        """`zero` is the run's start on time.perf_counter."""
        self.manner = manner
        self._zero = zero
        parts = urlsplit(edge.url(_PATH))
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if edge.secure else 80)
        self._tls = ssl.create_default_context() if edge.secure else None
        self._head = _head(parts.netloc, parts.path, edge, manner)
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # closed connections are told in the next turn

    def now_s(self) -> float:
        """The instant on the run's clock."""
        return time.perf_counter() - self._zero

    async def ask(self, shot: Shot) -> Sample:
        """Send one request and read its whole answer; a failure of any kind is a sample too.

        A cancelled request is the sample `aborted`: it was the operator who ended it.
        """
        request = b"%b%d\r\n\r\n%b" % (self._head, len(shot.body), shot.body)
        seen = Seen(self._zero, self.now_s())
        outcome: Outcome
        failed: Failure | None
        try:
            async with asyncio.timeout(self.manner.timeout_s):
                await self._exchange(request, seen)
            outcome, failed = _ended(seen)
        except asyncio.CancelledError:
            outcome, failed = "aborted", Failure("interrupted", "client")
        except TimeoutError:
            outcome, failed = "failed", Failure("timeout", "client")
        except Broken as error:
            outcome = "cut" if error.began and seen.status == 200 else "failed"
            failed = Failure(error.why, "client")
        except OSError as error:
            outcome, failed = "failed", Failure(_name_of(error), "client")
        seen.end_s = self.now_s() if seen.end_s is None else seen.end_s
        return sample_of(shot, seen, outcome, failed, keep_text=self.manner.keep_text)

    async def _exchange(self, request: bytes, seen: Seen) -> None:
        """Send once more where the server had closed a kept connection: it may at any time."""
        connection = self._kept()
        if connection is not None:
            seen.connection = "reused"
            try:
                await self._once(connection, request, seen)
            except Broken as error:
                if error.began or error.why == "not_http":
                    raise
            else:
                return
        seen.connection = "new"
        await self._once(await self._opened(), request, seen)

    async def _once(self, connection: Connection, request: bytes, seen: Seen) -> None:
        try:
            await connection.ask(request, seen)
        except BaseException:
            connection.close()
            raise
        seen.end_s = self.now_s()
        if connection.is_open:
            self._idle.append(connection)

    def _kept(self) -> Connection | None:
        """The connection that was used last of those that are still open."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _opened(self) -> Connection:
        async with asyncio.timeout(_CONNECT_S):
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, self._host, self._port, ssl=self._tls
            )
        return connection


def _ended(seen: Seen) -> tuple[Outcome, Failure | None]:
    """How a request went whose answer came to its end."""
    if seen.status != 200:
        return "refused", _refusal(seen)
    outcome = seen.reading.outcome()
    if outcome == "cut":
        return outcome, Failure("ended_without_done", "client")
    return outcome, seen.reading.failure


def _name_of(error: OSError) -> str:
    """`ConnectionRefusedError`, or where Python has no class of its own for it `EMFILE`."""
    name = type(error).__name__
    return errno.errorcode.get(error.errno or 0, name) if name == "OSError" else name


def _refusal(seen: Seen) -> Failure:
    try:
        return failure(json.loads(bytes(seen.refusal)))
    except ValueError:
        return Failure(f"status_{seen.status}", "")


def _head(netloc: str, path: str, edge: Edge, manner: Manner) -> bytes:
    """A request's head up to the length of its body, which is what differs."""
    fields = {
        "host": netloc,
        "authorization": f"Bearer {edge.api_key}",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": "nearfar-bench",
        **({"x-nearfar-trace": "1"} if manner.trace else {}),
        **manner.headers,
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")
