"""A fake: stands in for a GPU server behind vLLM's OpenAI-compatible API ("U" in the tests).

It answers like vLLM 0.32 unless a `Script` says otherwise, and logs what it received and when
its peer went away. No model runs here: the text is an echo, the engine's figures are made up.

    async with Upstream() as u: ...         # in the test's own event loop
    with UpstreamThread() as u: ...         # beside a test that is not asynchronous
    python -m tests.fakes.upstream --port 9100 --model mock --first-content-ms 50
"""

import argparse
import asyncio
import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Self

from . import wire
from .answer import model_list
from .background import InThread
from .connection import Connection
from .process import serve
from .record import Record
from .script import METRICS, Script, error_body

_CHAT = "/v1/chat/completions"


class Upstream:
    """The fake server; `requests` logs the chat requests, `others` everything else."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        scripts: Mapping[str, Script] | None = None,
        models: Sequence[str] = ("mock",),
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        keep: int | None = None,
        slots: int | None = None,
    ) -> None:
        """`scripts` are by model name; `keep` bounds the log, for long runs.

        `slots` are how many requests are computed at once; the others wait in the order in which
        they came, as many as there are, as at an engine without a bound.
        """
        self.script = script or Script()
        self.scripts = dict(scripts or {})
        self.marked: dict[str, Script] = {}  # by a marker inside the last user text
        self.models = tuple(dict.fromkeys((*models, *self.scripts)))
        self.api_key = api_key
        self.requests: list[Record] = []
        self.others: list[Record] = []
        self.host, self.port = host, port
        self.connections = 0  # ever opened
        self.active = 0  # chat requests being answered now
        self.peak_active = 0
        self._keep = keep
        self._slots = asyncio.Semaphore(slots) if slots else None
        self._count = 0
        self._queue: deque[Script] = deque()
        self._open: set[Connection] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._server: asyncio.Server | None = None
        self._started_s = int(time.time())

    @property
    def url(self) -> str:
        """The address without a path, as routes name it."""
        return f"http://{self.host}:{self.port}"

    def enqueue(self, *scripts: Script) -> None:
        """Answers the next chat requests with these, one each, before any other script."""
        self._queue.extend(scripts)

    async def start(self) -> None:
        """Listens; a port of 0 takes a free one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), self.host, self.port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and ends what is connected, as the kernel does for a killed server."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for connection in list(self._open):
                connection.drop()
            await server.wait_closed()
            await asyncio.sleep(0)  # connection_lost is called in the next turn

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def wait_for_request(self, n: int = 1, timeout_s: float = 5.0) -> Record:
        """The `n`-th chat request (from 1), as soon as it was received."""
        await self.wait_until(lambda: len(self.requests) >= n, timeout_s, f"request {n}")
        return self.requests[n - 1]

    async def wait_closed(self, i: int = 0, timeout_s: float = 5.0) -> float:
        """When the peer of `requests[i]` closed before its whole answer was sent."""
        await self.wait_until(
            lambda: self._closed_at(i) is not None, timeout_s, f"the close of {i}"
        )
        closed = self._closed_at(i)
        assert closed is not None
        return closed

    async def wait_finished(self, i: int = 0, timeout_s: float = 5.0) -> Record:
        """The record of `requests[i]`, as soon as its whole answer was sent."""
        await self.wait_until(
            lambda: len(self.requests) > i and self.requests[i].finished,
            timeout_s,
            f"the end of {i}",
        )
        return self.requests[i]

    async def wait_until(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Waits for a change in the records that makes `holds` true; `what` names it."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            left = deadline - time.monotonic()
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await asyncio.wait([future], timeout=left)
            if not future.done():
                raise TimeoutError(f"the fake upstream did not see {what} within {timeout_s} s")

    async def mark(self, marker: str, script: Script) -> None:
        """Answers by this script what has the marker in its body."""
        self.marked[marker] = script

    def opened(self, connection: Connection) -> None:
        """Counts a new connection."""
        self.connections += 1
        self._open.add(connection)
        if self._server is None:  # accepted in the moment of the end
            connection.reset()

    def closed(self, connection: Connection) -> None:
        """Forgets a connection."""
        self._open.discard(connection)

    def received(self, head: wire.Head, body: bytes) -> tuple[Record, Script | None]:
        """Logs a request and chooses its script: queued, marked, by model, default."""
        self._count += 1
        record = Record(
            head.method, head.path, head.headers, body, time.monotonic(), number=self._count
        )
        if (head.method, head.path.split("?")[0]) != ("POST", _CHAT):
            self._log(self.others, record)
            return record, None
        self._log(self.requests, record)
        self.active += 1
        self.peak_active = max(self.peak_active, self.active)
        self.changed()
        return record, self._choose(record)

    async def turn(self, record: Record) -> None:
        """Waits for a slot; the times of the script count from then."""
        if self._slots is not None and record.t_started is None:
            await self._slots.acquire()
            record.t_started = time.monotonic()

    def ended(self, record: Record) -> None:
        """Says that a chat request is no longer being answered."""
        self.active -= 1
        if self._slots is not None and record.t_started is not None:
            self._slots.release()

    def plain(self, record: Record) -> tuple[int, bytes]:
        """Status and JSON body for what is not a chat completion."""
        path = record.path.split("?")[0]
        if path in ("/health", "/ping"):
            return HTTPStatus.OK, b""
        if path == "/fake/last":  # when each delta of the last answer really left
            last = self.requests[-1].deltas_sent_ms if self.requests else []
            return HTTPStatus.OK, json.dumps({"deltas_sent_ms": last}).encode()
        if path == "/fake/times":  # by the answer's number, on the machine's monotonic clock
            seen = {r.number: [r.t_received, r.t_first_content_sent] for r in self.requests}
            return HTTPStatus.OK, json.dumps(seen).encode()
        if path == "/v1/models":
            if self._refuses(record):
                return HTTPStatus.UNAUTHORIZED, b'{"error":"Unauthorized"}'
            return HTTPStatus.OK, model_list(self.models, self._started_s)
        return HTTPStatus.NOT_FOUND, b'{"detail":"Not Found"}'

    def changed(self) -> None:
        """Wakes whoever waits for a change in the records."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _closed_at(self, i: int) -> float | None:
        return self.requests[i].t_closed_by_peer if len(self.requests) > i else None

    def _choose(self, record: Record) -> Script:
        if self._refuses(record):
            return Script(status=401, body=b'{"error":"Unauthorized"}')
        try:
            model = str(record.json.get("model"))
        except (ValueError, TypeError):
            return Script(status=400, body=error_body(400, "the body is not a JSON object"))
        if self._queue:
            return self._queue.popleft()
        for marker, script in self.marked.items():
            if marker.encode() in record.body:
                return script
        if model not in self.models:
            missing = f"The model `{model}` does not exist."
            return Script(status=404, body=error_body(404, missing, "model"))
        return self.scripts.get(model, self.script)

    def _refuses(self, record: Record) -> bool:
        return self.api_key is not None and (
            record.header("authorization") != f"Bearer {self.api_key}"
        )

    def _log(self, records: list[Record], record: Record) -> None:
        records.append(record)
        if self._keep is not None and len(records) > 2 * self._keep:
            del records[: self._keep]


class UpstreamThread(InThread[Upstream]):
    """The same server in a thread; the waiting helpers block."""

    def __init__(self, script: Script | None = None, **options: Any) -> None:
        super().__init__(Upstream(script, **options))

    @property
    def requests(self) -> list[Record]:
        """The chat requests so far."""
        return self.fake.requests

    def enqueue(self, *scripts: Script) -> None:
        """See `Upstream.enqueue`."""
        self.fake.enqueue(*scripts)

    def down(self) -> None:
        """See `Upstream.stop`; what it has logged stays."""
        self.run(self.fake.stop())

    def up(self) -> None:
        """Listens again, at the same address."""
        self.run(self.fake.start())

    def wait_for_request(self, n: int = 1, timeout_s: float = 5.0) -> Record:
        """See `Upstream.wait_for_request`."""
        return self.run(self.fake.wait_for_request(n, timeout_s))

    def wait_closed(self, i: int = 0, timeout_s: float = 5.0) -> float:
        """See `Upstream.wait_closed`."""
        return self.run(self.fake.wait_closed(i, timeout_s))

    def wait_finished(self, i: int = 0, timeout_s: float = 5.0) -> Record:
        """See `Upstream.wait_finished`."""
        return self.run(self.fake.wait_finished(i, timeout_s))

    def wait_until(self, holds: Callable[[], bool], timeout_s: float, what: str) -> None:
        """See `Upstream.wait_until`; `holds` is called in the server's thread."""
        self.run(self.fake.wait_until(holds, timeout_s, what))

    def mark(self, marker: str, script: Script) -> None:
        """See `Upstream.mark`."""
        self.run(self.fake.mark(marker, script))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the fake as a process; the first line on stdout is {"url": …, "pid": …}."""
    parser = argparse.ArgumentParser(prog="upstream", description="A fake GPU server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", action="append", help="a name to serve (default: mock)")
    parser.add_argument("--api-key")
    parser.add_argument("--head-ms", type=float, default=0.0)
    parser.add_argument("--first-content-ms", type=float, default=0.0)
    parser.add_argument("--gap-ms", type=float, default=0.0)
    parser.add_argument("--chunks", type=int, help="content deltas (default: one a word)")
    parser.add_argument("--slots", type=int, help="requests computed at once (default: any)")
    parser.add_argument("--metrics", action="store_true", help="per-request metrics, made up")
    parser.add_argument("--marked", default="{}", help="JSON: {marker in the text: {script}}")
    given = parser.parse_args(arguments)
    script = Script(
        head_ms=given.head_ms,
        first_content_ms=given.first_content_ms,
        gap_ms=given.gap_ms,
        chunks=given.chunks,
        metrics=METRICS if given.metrics else None,
    )
    fake = Upstream(
        script,
        models=given.model or ("mock",),
        api_key=given.api_key,
        host=given.host,
        port=given.port,
        keep=1000,
        slots=given.slots,
    )
    fake.marked = {mark: Script(**fields) for mark, fields in json.loads(given.marked).items()}
    serve(
        fake,
        lambda u: {"url": u.url, "port": u.port, "models": u.models, "pid": os.getpid()},
        lambda u: {"connections": u.connections, "peak_active": u.peak_active},
    )


if __name__ == "__main__":
    main()
