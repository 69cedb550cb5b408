"""What every way to the model servers must do; see `store` for the form.

A check names what the server on the other side does; `SCENES` says it in plain words for whoever
arranges it. `call(scene)` gives the request that meets that server; its time-outs are `SHORT_MS`
where the scene waits, and long elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from edge_frontend.errors import UpstreamBroke, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from edge_frontend.ports import Answer, Call, Clock, Last, Sink, Upstream

SHORT_MS = 200
BODY = b"data: one\n\ndata: two\n\n"
SCENES = {
    "whole": "200, header `X-Seen: yes`, the body BODY, a clean end",
    "refused": "429, header `Retry-After: 7`, the body `full`",
    "closed": "no server listens there",
    "no head": "accepts and says nothing",
    "breaks": "200, half of the body BODY, then the connection ends without the body's end",
    "stalls": "200, half of the body BODY, then nothing",
}

Caller = Callable[[str], Call]
# A sink of the host, and what ends it and gives what arrived at its other end.
Pipe = Callable[[], tuple[Sink, Callable[[], Awaitable[bytes]]]]
Check = Callable[[Upstream, Clock, Caller], Awaitable[None]]
Pouring = Callable[[Upstream, Caller, Pipe], Awaitable[None]]


async def read_all(answer: Answer) -> bytes:
    """The body up to its clean end."""
    pieces = []
    while data := await answer.body.read():
        pieces.append(data)
    return b"".join(pieces)


async def a_whole_answer_is_read(upstream: Upstream, clock: Clock, call: Caller) -> None:
    answer = await upstream.send(call("whole"))
    assert answer.status == 200
    assert b"yes" in [value for name, value in answer.headers if name == "x-seen"]
    assert await read_all(answer) == BODY
    assert await answer.body.read() == b"", "the end stays the end"
    answer.body.close()


async def an_error_status_is_an_answer(upstream: Upstream, clock: Clock, call: Caller) -> None:
    answer = await upstream.send(call("refused"))
    assert answer.status == 429
    assert ("retry-after", b"7") in answer.headers
    assert await read_all(answer) == b"full"
    answer.body.close()


async def nobody_there_is_unreachable(upstream: Upstream, clock: Clock, call: Caller) -> None:
    await fails(upstream.send(call("closed")), UpstreamUnreachable)


async def no_head_in_time_is_a_timeout(upstream: Upstream, clock: Clock, call: Caller) -> None:
    before_ms = clock.now_ms()
    await fails(upstream.send(call("no head")), UpstreamTimeout)
    assert clock.now_ms() - before_ms < SHORT_MS + 2_000


async def a_body_that_breaks_off_is_no_clean_end(
    upstream: Upstream, clock: Clock, call: Caller
) -> None:
    answer = await upstream.send(call("breaks"))
    await fails(read_all(answer), UpstreamBroke)
    answer.body.close()


async def silence_in_a_body_is_a_timeout(upstream: Upstream, clock: Clock, call: Caller) -> None:
    answer = await upstream.send(call("stalls"))
    await fails(read_all(answer), UpstreamTimeout)
    answer.body.close()


async def a_close_ends_a_read_that_waits(upstream: Upstream, clock: Clock, call: Caller) -> None:
    answer = await upstream.send(call("stalls"))
    await answer.body.read()
    reading = asyncio.ensure_future(answer.body.read())
    await clock.sleep_ms(20)
    answer.body.close()
    await fails(reading, UpstreamError)


async def a_whole_answer_is_poured(upstream: Upstream, call: Caller, pipe: Pipe) -> None:
    answer, (sink, arrived), taken = await upstream.send(call("whole")), pipe(), list[bytes]()

    def feed(data: bytes) -> bytes:
        taken.append(data)
        return data.upper() if data else Last(b"end")

    await answer.body.pour(sink, feed)
    answer.body.close()
    assert b"".join(taken) == BODY
    assert await arrived() == BODY.upper() + b"end"


async def a_pouring_ends_when_it_had_enough(upstream: Upstream, call: Caller, pipe: Pipe) -> None:
    answer, (sink, arrived) = await upstream.send(call("stalls")), pipe()
    await answer.body.pour(sink, lambda data: Last(b"enough"))
    answer.body.close()
    assert await arrived() == b"enough"


async def what_came_is_poured_before_a_body_breaks_off(
    upstream: Upstream, call: Caller, pipe: Pipe
) -> None:
    answer, (sink, arrived) = await upstream.send(call("breaks")), pipe()
    await fails(answer.body.pour(sink, lambda data: b"+" if data else b""), UpstreamBroke)
    answer.body.close()
    assert set(await arrived()) == {ord("+")}


async def a_close_ends_a_pouring_that_waits(upstream: Upstream, call: Caller, pipe: Pipe) -> None:
    answer, (sink, arrived) = await upstream.send(call("stalls")), pipe()
    pouring = asyncio.ensure_future(answer.body.pour(sink, lambda data: data))
    await asyncio.sleep(0)
    answer.body.close()
    await fails(pouring, UpstreamError)
    await arrived()


async def fails(work: Awaitable[object], error: type[Exception]) -> None:
    """Assert that it raises this error."""
    try:
        await work
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


CHECKS: tuple[Check, ...] = (
    a_whole_answer_is_read,
    an_error_status_is_an_answer,
    nobody_there_is_unreachable,
    no_head_in_time_is_a_timeout,
    a_body_that_breaks_off_is_no_clean_end,
    silence_in_a_body_is_a_timeout,
    a_close_ends_a_read_that_waits,
)
POURING: tuple[Pouring, ...] = (
    a_whole_answer_is_poured,
    a_pouring_ends_when_it_had_enough,
    what_came_is_poured_before_a_body_breaks_off,
    a_close_ends_a_pouring_that_waits,
)
