"""One answer underway: read from its source, relayed, watched, and kept when it is complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from . import admission, answer, cache, flight, forward, prompt, sse, untrusted
from .errors import DeadlineExceeded, EdgeError, UpstreamBroke
from .exchange import Exchange
from .ports import Alarm, Last, Sink, Source
from .relay import Relay
from .request import ChatRequest

MAX_BODY_BYTES = 32_000_000

Again = Callable[[], Awaitable[Source]]


class Carriage:
    """Carries one answer; `client_gone` says that nobody is left to send it to."""

    __slots__ = (
        "_again",
        "_alarm",
        "_body",
        "_deadline",
        "_ended",
        "_guard",
        "_is_late",
        "_lead",
        "_relay",
        "_request",
        "_source",
        "_x",
        "client_gone",
    )

    def __init__(
        self,
        x: Exchange,
        request: ChatRequest,
        source: Source,
        lead: flight.Lead | None,
        again: Again | None = None,
    ) -> None:
        self._again = again
        self._x, self._request, self._source, self._lead = x, request, source, lead
        self._guard = x.output_guard(request.fields)
        self._relay = self._new_relay()
        self._alarm: Alarm | None = None
        self._deadline = self._set_deadline()
        self._body: dict[str, Any] | None = None
        self._ended = self.client_gone = self._is_late = False

    @property
    def head(self) -> dict[str, Any]:
        """What the model server's chunks have in common: id, created, model."""
        return self._relay.head

    async def stream(self, sink: Sink) -> None:
        """Forward what comes as it comes, up to the stream's own end.

        Raises:
            UpstreamError: when the answer broke off or ended in an error.
        """
        relay, source = self._relay, self._source
        try:
            while not (relay.has_forwarded or relay.ended):
                self._note(await sink.write(self._take(await source.read())))
            if relay.has_forwarded:
                self._x.mark("forward_first", "t5")
            if not relay.ended:
                await source.pour(sink, self._take)
            self._check()
        except UpstreamBroke as error:
            raise self._named(error) from error

    async def gather(self) -> bytes:
        """The whole answer as one body.

        Raises:
            UpstreamError: when it did not come whole.
        """
        try:
            while not self._relay.ended:
                self._take(await self._read())
            self._check()
        except UpstreamBroke as error:
            raise self._named(error) from error
        self._x.mark("collect")
        self._body = self._relay.body(self._request.choices)
        if self._body is None:
            raise UpstreamBroke("The model server ended before its answer was complete.")
        return prompt.dump(self._body)

    async def read_whole(self) -> cache.Entry:
        """An answer that came as one body.

        Raises:
            UpstreamError: when it is not the body of a chat completion.
        """
        body = bytearray()
        while data := await self._source.read():
            body += data
            if len(body) > MAX_BODY_BYTES:
                raise UpstreamBroke("The model server sent a body that is too large.")
        self._x.mark("model_call", "t4")
        try:
            document = untrusted.loads(bytes(body))
            if self._guard is not None:
                document = self._guard.body(document)
            self._count(document.get("usage") or {}, document.get("metrics"))
            entry = _entry(self._x, document)
            is_complete = all(choice["finish_reason"] for choice in document["choices"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UpstreamBroke("The model server sent something else than an answer.") from error
        self._body = document if is_complete else None
        return entry

    def watch(self, sink: Sink) -> None:
        """Now and then: is the client there, does anybody follow, has the lease to be renewed."""
        followed = self._lead is not None and self._lead.followed
        tick_ms = flight.TICK_FOLLOWED_MS if followed else flight.TICK_MS

        def ring() -> None:
            self._x.ports.spawn(self._look(sink))

        self._alarm = self._x.ports.clock.after_ms(tick_ms, ring)

    async def finish(self) -> None:
        """End the call, keep the answer if it is complete, give the lease back."""
        self._ended = True
        for alarm in (self._alarm, self._deadline):
            if alarm is not None:
                alarm.let_go()
        self._tell_fired()
        lead, self._lead = self._lead, None
        if lead is not None:
            body = await self._complete(lead)
            await lead.finish(_entry(self._x, body) if body is not None else None)
        self._source.close()

    async def _look(self, sink: Sink) -> None:
        self._note(await sink.is_there())
        if self._lead is not None:
            await self._lead.tick(self.client_gone)
        if self._ended:
            return
        if self.client_gone and not (self._lead is not None and self._lead.followed):
            self._source.close()
        else:
            self.watch(sink)

    async def _complete(self, lead: flight.Lead) -> dict[str, Any] | None:
        """The answer as one body; None unless its source ended cleanly after its last event."""
        is_partial = not self._relay.done and self._body is None
        if is_partial or not self._x.may_keep:
            return None
        try:
            while data := await self._source.read():
                lead.saw(data)
            return self._body or self._relay.body(self._request.choices)
        except EdgeError:
            return None

    def _new_relay(self) -> Relay:
        keep = self._lead is not None or not self._request.stream
        return Relay(wants_usage=self._request.wants_usage, keep=keep, guard=self._guard)

    def _set_deadline(self) -> Alarm | None:
        """The host ends a request at its deadline; better we do, and say so."""
        if not self._x.settings.deadline_ms:
            return None

        def ring() -> None:
            self._is_late = True
            self._source.close()

        left_ms = admission.left_ms(self._x) - forward.LAST_WORD_MS
        return self._x.ports.clock.after_ms(max(0.0, left_ms), ring)

    def _named(self, error: UpstreamBroke) -> EdgeError:
        """The error as the client should know it."""
        if not self._is_late:
            return error
        return DeadlineExceeded("The time that the host gives a request is over.")

    async def _read(self) -> bytes:
        """The next piece, of another source where this one broke off and there is one."""
        try:
            return await self._source.read()
        except UpstreamBroke:
            if self._again is None or self.client_gone:
                raise
        again, self._again = self._again, None
        self._source = await again()
        self._guard = self._x.output_guard(self._request.fields)
        self._relay = self._new_relay()
        return await self._source.read()

    def _take(self, data: bytes) -> bytes:
        """What of a piece goes on: a `Last` at the stream's own end. An empty piece is the end."""
        x, relay = self._x, self._relay
        arrived_ms = 0.0 if relay.has_content else x.ports.clock.now_ms()
        if self._lead is not None:
            self._lead.saw(data)
        piece = relay.feed(data)
        if not data:
            relay.end()
        if arrived_ms and relay.has_content:
            x.account.mark("model_call", arrived_ms, "t4")
        return Last(piece) if relay.ended else piece

    def _tell_fired(self) -> None:
        if self._guard is not None:
            self._x.fired(self._guard.fired)

    def _note(self, is_there: bool) -> None:
        self.client_gone = self.client_gone or not is_there

    def _check(self) -> None:
        relay = self._relay
        self._tell_fired()
        if relay.failed:
            raise UpstreamBroke("The model server reported an error in the middle of its answer.")
        self._count(relay.usage or {}, relay.metrics)

    def _count(self, usage: Any, metrics: Any) -> None:
        book = self._x.account
        book.input_tokens = _whole_number(usage.get("prompt_tokens"))
        book.output_tokens = _whole_number(usage.get("completion_tokens"))
        if book.far_trips and isinstance(metrics, dict):
            book.engine = metrics


def _entry(x: Exchange, body: dict[str, Any]) -> cache.Entry:
    """The answer as it is kept, without the engine's figures, which are of this call alone."""
    body = {name: value for name, value in body.items() if name != "metrics"}
    usage = answer.usage_frame(body)
    return cache.Entry(
        stored_at=int(x.ports.clock.wall_s()),
        input_tokens=x.account.input_tokens,
        output_tokens=x.account.output_tokens,
        body=prompt.dump(body),
        frames=b"".join(map(sse.frame, answer.frames(body))),
        usage_frame=sse.frame(usage) if usage else b"",
    )


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
