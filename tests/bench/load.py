"""A closed loop of concurrent streams against one address, with the instants of each.

Speaks HTTP/1.1 over asyncio's transports itself. httpx costs about a millisecond of processor a
request and more a chunk; with 64 streams, and the server under test on the same two cores, the
client would be what is measured.
"""

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

# Content, reasoning or not, as vLLM and OpenAI write it; an empty string is no content.
_CONTENT = re.compile(rb'"content": ?"[^"]')
_DONE = re.compile(rb"data: ?\[DONE\]\s*\Z")


@dataclass(slots=True)
class Sample:
    """One request: instants in seconds of the monotonic clock, None where not observed."""

    started: float
    first_byte: float | None = None
    first_content: float | None = None
    ended: float | None = None
    status: int = 0
    cache: str = ""  # the x-cache header
    chunks: int = 0
    size_bytes: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether a whole, right answer came."""
        return not self.error

    def ms_to(self, name: str) -> float | None:
        """Milliseconds from the start to an instant."""
        at = getattr(self, name)
        return None if at is None else (at - self.started) * 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, how much of it at once, for how long, and what a right answer is."""

    body: Callable[[int], bytes]  # the body of request number i
    streams: int
    count: int | None = None  # requests; None: as many as `seconds` allow
    seconds: float | None = None
    chunks: int | None = None  # content deltas of a right stream; None: any 200 is right
    spread_s: float = 0.0  # the workers start over that time, so that they do not march in step
    warm_up: int = 0  # requests of each worker that are not counted
    headers: tuple[tuple[str, str], ...] = ()
    path: str = "/v1/chat/completions"

    def __post_init__(self) -> None:
        if (self.count is None) == (self.seconds is None):
            raise ValueError("a plan is bounded by a count or by seconds")


@dataclass(slots=True)
class Result:
    """The samples of one run; those of the warm-up are not among them."""

    samples: list[Sample] = field(default_factory=list)
    sent: int = 0  # requests, those of the warm-up among them
    elapsed_s: float = 0.0
    reconnects: int = 0

    @property
    def good(self) -> list[Sample]:
        """The samples with a whole answer."""
        return [sample for sample in self.samples if sample.ok]

    @property
    def errors(self) -> dict[str, int]:
        """How many requests failed with each error."""
        names = sorted({sample.error for sample in self.samples if sample.error})
        return {name: sum(s.error == name for s in self.samples) for name in names}


async def run(url: str, plan: Plan) -> Result:
    """Runs the plan against `url` (scheme, host and port)."""
    result = Result()
    numbers = itertools.count()
    start = time.monotonic()
    workers = [_work(url, plan, numbers, result, start, i) for i in range(plan.streams)]
    await asyncio.gather(*workers)
    counted = [s.started for s in result.samples]
    ended = [s.ended for s in result.samples if s.ended is not None]
    result.elapsed_s = max(ended) - min(counted) if ended else 0.0
    return result


async def _work(
    url: str, plan: Plan, numbers: Iterator[int], result: Result, start: float, worker: int
) -> None:
    await asyncio.sleep(plan.spread_s * worker / plan.streams)
    connection = Connection(url, plan)
    for own, number in enumerate(numbers):
        if plan.seconds is not None and time.monotonic() > start + plan.seconds:
            break
        if plan.count is not None and number >= plan.count + plan.warm_up * plan.streams:
            break
        sample = await connection.ask(plan.body(number))
        result.sent += 1
        if own >= plan.warm_up:
            result.samples.append(sample)
    connection.close()
    result.reconnects += connection.reconnects


class Connection:
    """A connection that is opened again when the server has closed it."""

    def __init__(self, url: str, plan: Plan) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        lines = [f"POST {plan.path} HTTP/1.1", f"Host: {parts.netloc}"]
        fields = (("Content-Type", "application/json"), *plan.headers)
        lines += [f"{name}: {value}" for name, value in fields]
        self._head = "\r\n".join(lines).encode() + b"\r\nContent-Length: "
        self._chunks = plan.chunks
        self._protocol: _Exchange | None = None
        self.reconnects = 0

    async def ask(self, body: bytes) -> Sample:
        """Sends one request and reads its whole answer."""
        sent = self._head + b"%d\r\n\r\n" % len(body) + body
        reused = self._protocol is not None and self._protocol.is_open
        try:
            sample = await self._once(sent)
            if reused and sample.error == "closed before the answer":
                self.reconnects += 1  # an idle connection may be closed at any time
                sample = await self._once(sent)
        except OSError as error:
            sample = Sample(time.monotonic(), error=type(error).__name__)
        return sample

    async def _once(self, sent: bytes) -> Sample:
        if self._protocol is None or not self._protocol.is_open:
            loop = asyncio.get_running_loop()
            _, self._protocol = await loop.create_connection(
                lambda: _Exchange(self._chunks), *self._address
            )
        return await self._protocol.exchange(sent)

    def close(self) -> None:
        """Closes the connection."""
        if self._protocol is not None:
            self._protocol.close()


class _Exchange(asyncio.Protocol):
    """One connection's requests, one after the other."""

    def __init__(self, chunks: int | None) -> None:
        self._expected = chunks
        self._transport: asyncio.Transport | None = None
        self._sample: Sample | None = None
        self._done: asyncio.Future[None] | None = None
        self.is_open = False
        self._raw = bytearray()
        self._body = bytearray()
        self._left: int | None = None  # bytes of a body with a length; None: chunked
        self._has_head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True

    async def exchange(self, sent: bytes) -> Sample:
        """Sends a request and waits for the end of its answer."""
        assert self._transport is not None
        self._raw.clear()
        self._body.clear()
        self._has_head = False
        self._done = asyncio.get_running_loop().create_future()
        sample = self._sample = Sample(time.monotonic())
        self._transport.write(sent)
        await self._done
        self._sample = None
        return sample

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        sample = self._sample
        if sample is None:
            return
        now = time.monotonic()
        if sample.first_byte is None:
            sample.first_byte = now
        self._raw += data
        if not self._has_head and not self._take_head(sample):
            return
        ended = self._take_body()
        if sample.first_content is None and _CONTENT.search(self._body):
            sample.first_content = now
        if ended:
            sample.ended = now
            self._judge(sample)
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        sample = self._sample
        if sample is not None and self._done is not None and not self._done.done():
            sample.ended = time.monotonic()
            sample.error = (
                "closed in the answer" if sample.first_byte else "closed before the answer"
            )
            self._finish()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _take_head(self, sample: Sample) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._raw[:end]).lower()
        del self._raw[: end + 4]
        self._has_head = True
        sample.status = int(head[9:12])
        length, cache = _field(head, b"content-length"), _field(head, b"x-cache")
        self._left = None if length is None else int(length)
        sample.cache = cache.decode() if cache else ""
        return True

    def _take_body(self) -> bool:
        """Moves what has come into the body; whether that was all of it."""
        if self._left is not None:
            self._body += self._raw
            self._left -= len(self._raw)
            self._raw.clear()
            return self._left <= 0
        position = 0
        while (end := self._raw.find(b"\r\n", position)) >= 0:
            size = int(self._raw[position:end], 16)
            if len(self._raw) < end + size + 4:
                break
            if size == 0:
                return True
            self._body += self._raw[end + 2 : end + 2 + size]
            position = end + size + 4
        del self._raw[:position]
        return False

    def _judge(self, sample: Sample) -> None:
        """Says what is wrong with a whole answer, if anything."""
        sample.size_bytes = len(self._body)
        if sample.status != 200:
            sample.error = f"status {sample.status}"
        elif self._expected is not None:
            sample.chunks = len(_CONTENT.findall(self._body))
            if sample.chunks != self._expected:
                sample.error = f"{sample.chunks} content deltas, not {self._expected}"
            elif not _DONE.search(self._body):
                sample.error = "no [DONE]"


def _field(head: bytes, name: bytes) -> bytes | None:
    """A header's value, out of a head in lower case."""
    start = head.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()
