"""Fakes of the edge's ports, in virtual time, and one edge instance built of them.

No time passes here: a loop in which everything waits goes straight to the next timer. What cannot
end by itself is therefore an error at once, not a hanging test.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import re
import selectors
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edge_frontend import flow, keys
from edge_frontend.errors import BodyTooLarge, StoreDown, UpstreamBroke, UpstreamError
from edge_frontend.exchange import Exchange, Instance
from edge_frontend.limits import NO_LIMITS, NORMAL, Limits
from edge_frontend.ports import (
    Add,
    Answer,
    Call,
    Claim,
    Delete,
    Get,
    Last,
    Operation,
    Ports,
    Put,
    Renew,
    Reply,
    Result,
    Sink,
    Slice,
    Spend,
    Unspend,
)
from edge_frontend.settings import Settings, from_variables

T = TypeVar("T")
_CALLS = itertools.count()

SECRET = "a secret of the operator, long enough"
WALL_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CHAT = "/v1/chat/completions"
ROUTES: dict[str, Any] = {
    "version": "7",
    "upstreams": {"gpu": {"url": "http://gpu.test:8000"}},
    "models": {
        "small": {
            "upstream": "gpu",
            "model": "served-small",
            "revision": "r1",
            "context_tokens": 2048,
            "serving_hash": "s1",
        },
        "other": {"upstream": "gpu"},
    },
}


class _Selector(selectors.SelectSelector):
    """Waits for nothing: moves the time of all loops instead."""

    now_s = 0.0  # shared, so that time goes on from one loop to the next

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits and nothing will happen any more")
            _Selector.now_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everything waits."""

    def __init__(self) -> None:
        super().__init__(_Selector())

    def time(self) -> float:
        return _Selector.now_s


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


@dataclass(frozen=True, slots=True)
class TimerAlarm:
    """A timer of the loop."""

    timer: asyncio.TimerHandle

    def let_go(self) -> None:
        self.timer.cancel()


class VirtualClock:
    """The loops' time since it was made; a test may also set it on by hand."""

    def __init__(self, now_ms: float = 5_000.0, wall_s: float = WALL_S) -> None:
        self._now_ms, self._wall_s = now_ms, wall_s
        self._made_s = _Selector.now_s

    def now_ms(self) -> float:
        return self._now_ms + self._passed_s() * 1000

    def wall_s(self) -> float:
        return self._wall_s + self._passed_s()

    def advance(self, duration_ms: float) -> None:
        """Let time pass without letting anybody run."""
        self._now_ms += duration_ms
        self._wall_s += duration_ms / 1000

    async def sleep_ms(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def after_ms(self, duration_ms: float, then: Callable[[], None]) -> TimerAlarm:
        return TimerAlarm(asyncio.get_running_loop().call_later(duration_ms / 1000, then))

    def _passed_s(self) -> float:
        return round(_Selector.now_s - self._made_s, 9)


class MemoryStore:
    """A store in memory with Redis's semantics; one round trip a batch.

    `down` refuses everything, `refused` only some kinds of operations (a full or read-only store),
    `delay_ms` makes it slow and `timeout_ms` says when its adapter gives up.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[bytes, float]] = {}
        self._events: dict[str, dict[str, float]] = {}  # name and instant, the oldest first
        self.down = False
        self.refused: tuple[type[Operation], ...] = ()
        self.delay_ms = 0.0
        self.timeout_ms = 250.0
        self.batches: list[tuple[Operation, ...]] = []

    async def batch(self, operations: Sequence[Operation]) -> tuple[list[Result], int]:
        self.batches.append(tuple(operations))
        await self._clock.sleep_ms(min(self.delay_ms, self.timeout_ms))
        if self.down or self.delay_ms > self.timeout_ms:
            raise StoreDown("The store failed.")
        results = []
        for operation in operations:
            if isinstance(operation, self.refused):
                raise StoreDown("The store refused the operation.")
            results.append(self._perform(operation))
        return results, 1

    def peek(self, key: str) -> bytes | None:
        """What a key holds now, without asking."""
        value, expires_ms = self._values.get(key, (None, 0.0))
        return value if expires_ms > self._clock.now_ms() else None

    def put(self, key: str, value: bytes, ttl_ms: float = 1e9) -> None:
        """Set a key without asking."""
        self._values[key] = (value, self._clock.now_ms() + ttl_ms)

    def names(self) -> list[str]:
        """Every key that holds something now."""
        return sorted(key for key in self._values if self.peek(key) is not None)

    def _perform(self, operation: Operation) -> Result:
        key, held = operation.key, self.peek(operation.key)
        match operation:
            case Get():
                return held
            case Slice(start=start):
                return (held or b"")[start:]
            case Put(value=value, ttl_ms=ttl_ms):
                self.put(key, value, ttl_ms)
                return True
            case Claim():
                return self._claim(operation)
            case Renew(value=value, ttl_ms=ttl_ms):
                if held == value:
                    self.put(key, value, ttl_ms)
                return held == value
            case Add():
                return self._add(operation)
            case Spend() | Unspend():
                return self._count(operation)
            case Delete(value=value):
                is_it = held is not None and value in (None, held)
                return is_it and self._values.pop(key) is not None

    def _claim(self, claim: Claim) -> bool:
        if self.peek(claim.key) is not None or self.peek(claim.unless) is not None:
            return False
        self.put(claim.key, claim.value, claim.ttl_ms)
        return True

    def _add(self, add: Add) -> Result:
        held = self.peek(add.key) or b"0"
        if not re.fullmatch(rb"-?\d+", held):
            raise StoreDown("The store refused the operation.")
        self.put(add.key, b"%d" % (int(held) + add.amount), add.ttl_ms)
        return True

    def _count(self, operation: Spend | Unspend) -> Result:
        if isinstance(operation, Spend):
            return self._spend(operation)
        return self._events.get(operation.key, {}).pop(operation.event, None) is not None

    def _spend(self, spend: Spend) -> Result:
        now_ms = self._clock.now_ms()
        events = {
            name: at
            for name, at in self._events.get(spend.key, {}).items()
            if at > now_ms - spend.window_ms
        }
        if len(events) >= spend.most:
            first = list(events.values())[-spend.most] if spend.most else now_ms
            return max(1, math.ceil(first + spend.window_ms - now_ms))
        self._events[spend.key] = events | {spend.event: now_ms}
        return len(events) + 1 - spend.most


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause of a scripted body; without an end it lasts until somebody closes the source."""

    duration_ms: float | None = None


Piece = bytes | Wait | UpstreamError


class ScriptedSource:
    """A body that was written down before."""

    def __init__(self, clock: VirtualClock, pieces: Sequence[Piece]) -> None:
        self._clock, self._pieces = clock, deque(pieces)
        self._closing = asyncio.Event()
        self.reads = 0

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    async def read(self) -> bytes:
        self.reads += 1
        while self._pieces and isinstance(wait := self._pieces[0], Wait):
            self._pieces.popleft()
            if wait.duration_ms is None:
                await self._closing.wait()
            else:
                await self._sleep(wait.duration_ms)
        if self.closed:
            raise UpstreamBroke("The model call was ended.")
        piece = self._pieces.popleft() if self._pieces else b""
        if isinstance(piece, UpstreamError):
            raise piece
        assert isinstance(piece, bytes)
        return piece

    async def pour(self, sink: Sink, feed: Callable[[bytes], bytes]) -> None:
        piece, is_there = b"", True
        while type(piece) is not Last:
            piece = feed(await self.read())
            if piece and is_there:
                is_there = await sink.write(piece)

    def close(self) -> None:
        self._closing.set()

    async def _sleep(self, duration_ms: float) -> None:
        """Sleep, but not past the end of the source."""
        closing = asyncio.ensure_future(self._closing.wait())
        await asyncio.wait((closing,), timeout=duration_ms / 1000)
        closing.cancel()


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer of the upstream: its head after `head_ms`, then its pieces."""

    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: tuple[tuple[str, bytes], ...] = (("content-type", b"text/event-stream"),)
    head_ms: float = 0.0


class ScriptedUpstream:
    """Model servers that answer what was queued, in order; `usual` when nothing is."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._queue: deque[Scripted | UpstreamError] = deque()
        self.usual: Scripted | UpstreamError = Scripted(stream("Hello", " there"))
        self.at: dict[str, Scripted] = {}  # what other servers answer, by authority
        self.calls: list[Call] = []
        self.asked_elsewhere: list[Call] = []
        self.sources: list[ScriptedSource] = []

    def enqueue(self, *answers: Scripted | UpstreamError) -> None:
        """Answer the next calls with these, one each."""
        self._queue.extend(answers)

    def forget(self) -> None:
        """Answer as usual again."""
        self._queue.clear()

    async def send(self, call: Call) -> Answer:
        if call.authority in self.at:
            self.asked_elsewhere.append(call)
            return await self._answer(self.at[call.authority])
        self.calls.append(call)
        answer = self._queue.popleft() if self._queue else self.usual
        if isinstance(answer, UpstreamError):
            raise answer
        return await self._answer(answer)

    async def _answer(self, answer: Scripted) -> Answer:
        await self._clock.sleep_ms(answer.head_ms)
        source = ScriptedSource(self._clock, answer.pieces)
        self.sources.append(source)
        return Answer(answer.status, answer.headers, source)

    def sent(self, index: int = -1) -> dict[str, Any]:
        """The fields of one call's body."""
        fields: dict[str, Any] = json.loads(self.calls[index].body)
        return fields


@dataclass
class TimedSockets:
    """Finds a name in 7 ms and takes a connection in so many, or fails so."""

    clock: VirtualClock
    connect_ms: float = 40.0
    failure: UpstreamError | None = None
    connected: list[tuple[Any, int]] = field(default_factory=list)

    async def look_up(self, host: str, timeout_ms: int) -> Any:
        await self.clock.sleep_ms(7)
        return f"address of {host}"

    async def connect(self, address: Any, port: int, timeout_ms: int) -> None:
        await self.clock.sleep_ms(self.connect_ms)
        if self.failure is not None:
            raise self.failure
        self.connected.append((address, port))


class RecordingSink:
    """A client's end that remembers what came and when, and may leave after so many writes."""

    def __init__(self, clock: VirtualClock, leave_after: int | None = None) -> None:
        self._clock, self._leave_after = clock, leave_after
        self.written: list[tuple[float, bytes]] = []
        self.gone = leave_after == 0
        self.aborted = False

    @property
    def data(self) -> bytes:
        return b"".join(piece for _, piece in self.written)

    async def write(self, data: bytes) -> bool:
        if data and not self.gone:
            self.written.append((self._clock.now_ms(), data))
            self.gone = self._leave_after == len(self.written)
        return not self.gone

    async def is_there(self) -> bool:
        return not self.gone

    def abort(self) -> None:
        self.aborted = True


@dataclass(slots=True)
class FakeInbound:
    """A request in memory."""

    method: str = "POST"
    path: str = CHAT
    headers: Sequence[tuple[str, bytes]] = ()
    content: bytes = b""

    async def body(self, limit_bytes: int) -> bytes:
        if len(self.content) > limit_bytes:
            raise BodyTooLarge(f"The body must be at most {limit_bytes} bytes.")
        return self.content


@dataclass(frozen=True, slots=True)
class Response:
    """What a client got, and the record in the log line that was written for it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    sink: RecordingSink
    log: Mapping[str, Any] | None

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json()["error"]
        return error

    def payloads(self) -> list[bytes]:
        """The payloads of a stream in the framing that the edge itself writes."""
        assert self.body.endswith(b"\n\n"), self.body
        lines = self.body.removesuffix(b"\n\n").split(b"\n\n")
        assert all(line.startswith(b"data: ") for line in lines), self.body
        return [line.removeprefix(b"data: ") for line in lines]

    def chunks(self) -> list[dict[str, Any]]:
        """The chunks of the answer, without its end and without an error event."""
        documents = [json.loads(payload) for payload in self.payloads() if payload != b"[DONE]"]
        return [document for document in documents if "error" not in document]

    def text(self) -> str:
        """The content of a stream's first choice."""
        deltas = [c["choices"][0]["delta"] for c in self.chunks() if c.get("choices")]
        return "".join(delta.get("content") or "" for delta in deltas)


@dataclass(slots=True)
class Edge:
    """One edge instance; several over one store and clock are several machines."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    settings: Settings = field(default_factory=lambda: make_settings())
    store: MemoryStore | None = None
    upstream: ScriptedUpstream = field(init=False)
    instance: Instance = field(default_factory=Instance)
    sockets: TimedSockets | None = None
    logs: list[str] = field(default_factory=list)
    spawned: list[asyncio.Future[None]] = field(default_factory=list)
    dropped: bool = False

    def __post_init__(self) -> None:
        self.upstream = ScriptedUpstream(self.clock)

    @staticmethod
    def with_store(**settings: Any) -> Edge:
        """An edge with an empty store of its own."""
        clock = VirtualClock()
        return Edge(clock, make_settings(**settings), MemoryStore(clock))

    def beside(self) -> Edge:
        """Another instance with the same settings, store and upstream."""
        other = Edge(self.clock, self.settings, self.store)
        other.upstream = self.upstream
        return other

    def exchange(
        self,
        body: object = None,
        *,
        method: str = "POST",
        path: str = CHAT,
        key: str | None = "",
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> Exchange:
        """A request that arrives now; `key` is a valid one unless given, None sends none."""
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if key is not None:
            pairs.append(("authorization", f"Bearer {key or make_key()}"))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        encoded = [(name, value.encode("latin-1")) for name, value in pairs]
        inbound = FakeInbound(method, path, encoded, b"" if body is None else content)
        ports = Ports(
            clock=self.clock,
            store=self.store,
            upstream=self.upstream,
            random_bytes=self.random_bytes,
            log=self.logs.append,
            spawn=self._spawn,
            sockets=self.sockets,
        )
        return Exchange.begin(inbound, ports, self.settings, self.instance, self.clock.now_ms())

    async def ask(
        self, body: object = None, sink: RecordingSink | None = None, **request: Any
    ) -> Response:
        """Send a request and take the whole answer."""
        sink = sink or RecordingSink(self.clock)
        logged = len(self.logs)
        reply = await flow.handle(self.exchange(body, **request))
        return await self.take(reply, sink, logged)

    async def take(self, reply: Reply, sink: RecordingSink, logged: int = 0) -> Response:
        """Do what a host does with a reply."""
        if isinstance(reply.body, bytes):
            await sink.write(reply.body)
        else:
            await reply.body(sink)
        log = json.loads(self.logs[-1]) if len(self.logs) > logged else None
        return Response(reply.status, dict(reply.headers), sink.data, sink, log)

    def get(self, path: str, **request: Any) -> Coroutine[Any, Any, Response]:
        """Send a GET."""
        return self.ask(None, method="GET", path=path, **request)

    def drop(self) -> None:
        """What a host may do to an instance at any time: nothing of it runs any more."""
        self.dropped = True
        for work in self.spawned:
            work.cancel()

    def random_bytes(self, count: int) -> bytes:
        """Bytes that no two calls get, on whichever machine."""
        return hashlib.shake_128(b"%d" % next(_CALLS)).digest(count)

    def _spawn(self, work: Awaitable[None]) -> None:
        assert asyncio.iscoroutine(work)
        if self.dropped:
            work.close()
        else:
            self.spawned.append(asyncio.ensure_future(work))


def make_settings(**changes: Any) -> Settings:
    """Settings as an operator may give them; values that are not text are JSON."""
    given = {"routes": ROUTES, "key_secret": SECRET, "upstream_keys": {"gpu": "upstream-key"}}
    variables = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in (given | changes).items()
    }
    return from_variables(variables)


def make_key(
    permissions: tuple[str, ...] = ("chat",),
    *,
    tenant: str = "acme",
    key_id: str = "k1",
    models: tuple[str, ...] = ("*",),
    expires_at: int = int(WALL_S) + 3_600,
    secret: str = SECRET,
    limits: Limits = NO_LIMITS,
    priority: int = NORMAL,
) -> str:
    """A key that works for an hour of virtual time."""
    who = (key_id, tenant, expires_at)
    return keys.mint(secret, keys.Claims(*who, models, permissions, limits, priority))


def chat(text: str = "hi", **fields: Any) -> dict[str, Any]:
    """A request that may be cached."""
    messages = [{"role": "user", "content": text}]
    return {"model": "small", "messages": messages, "temperature": 0} | fields


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> bytes:
    """One event of a stream as vLLM frames it; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_799_999_999,
        "model": "served-small",
        "choices": choices,
        **fields,
    }
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
METRICS = {
    "queue_time_ms": 1.5,
    "time_to_first_token_ms": 30.25,
    "generation_time_ms": 90.0,
    "mean_itl_ms": 10.5,
    "tokens_per_second": 62.5,
}
DONE = b"data: [DONE]\n\n"


def stream(*texts: str, finish: str = "stop", usage: object = USAGE, **last: Any) -> list[bytes]:
    """The events of one whole answer: role, texts, end, usage, [DONE]."""
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": text}) for text in texts]
    events.append(chunk({}, finish))
    if usage is not None:
        events.append(chunk(None, usage=usage, **last))
    return [*events, DONE]
