"""Waits of the component model, below the tasks of asyncio.

The event loop of componentize-py 0.25 gives a waitable's event to whatever object stands under the
waitable's number, by `set_result`. A `Listener` stands there in a future's place, so that what
follows an event happens in that one call; a task's turn for it costs several times as much
(docs/performance.md). Waits cannot be cancelled from Python: one that is no longer wanted is let go
of, and its event goes nowhere. Return codes are those of the component model's canonical ABI.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import componentize_py_async_support as tasks
import componentize_py_runtime as runtime
from componentize_py_types import Ok
from spin_sdk.wit.imports import wasi_clocks_monotonic_clock_0_3_0 as monotonic

T = TypeVar("T")

DROPPED = 1
READ_BYTES = 65_536


class Listener:
    """Stands under a waitable's number; `then` gets the result of what was waited for."""

    __slots__ = ("_promise", "_state", "_then", "_waitable")

    def __init__(self, then: Callable[[Any], None]) -> None:
        self._then = then
        self._state = tasks._future_state.get()
        if self._state.waitable_set is None:
            self._state.waitable_set = runtime.waitable_set_new()
        self._waitable = 0
        self._promise: Any = None

    @property
    def waits(self) -> bool:
        """Whether an event is still to come."""
        return self._waitable != 0

    def read(self, reader: Any) -> tuple[int, bytes] | None:
        """Bytes that are there already, or None with a read under way."""
        read: tuple[int, bytes] | None = self._begin(
            runtime.stream_read(reader.type_, reader.handle, READ_BYTES)
        )
        return read

    def write(self, writer: Any, data: bytes) -> tuple[int, int] | None:
        """How much was taken at once, or None with a write under way."""
        written: tuple[int, int] | None = self._begin(
            runtime.stream_write(writer.type_, writer.handle, data)
        )
        return written

    def set_result(self, event: int) -> None:
        """Called by the event loop."""
        self._waitable = 0
        self._then(runtime.promise_get_result(event, self._promise))

    def let_go(self) -> None:
        """Wait no longer; the event, if it comes, goes nowhere."""
        if self._waitable:
            del self._state.futures[self._waitable]
            runtime.waitable_join(self._waitable, 0)
            self._waitable = 0

    def _begin(self, result: Any) -> Any:
        if isinstance(result, Ok):
            return result.value
        self._waitable, self._promise = result.value
        self._state.futures[self._waitable] = self
        runtime.waitable_join(self._waitable, self._state.waitable_set)
        return None


class Alarm:
    """Calls `then` once after a while, in the context it was set in, unless let go of before."""

    __slots__ = ("_context", "_state", "_then", "_timer", "_waitable")

    def __init__(self, duration_ms: float, then: Callable[[], None]) -> None:
        self._then, self._context = then, contextvars.copy_context()
        self._state = tasks._future_state.get()
        self._timer = monotonic.wait_for(int(duration_ms * 1e6))
        placed: asyncio.Future[Any] = self._timer.send(None)
        self._waitable = next(
            number for number, found in self._state.futures.items() if found is placed
        )
        self._state.futures[self._waitable] = self

    def set_result(self, _event: int) -> None:
        """Called by the event loop."""
        self._waitable = 0
        self._timer.close()
        self._context.run(self._then)

    def let_go(self) -> None:
        """Ring no more."""
        if self._waitable:
            del self._state.futures[self._waitable]
            runtime.waitable_join(self._waitable, 0)
            self._waitable = 0
            self._timer.close()


class Writing:
    """Writes the whole of some bytes; `then` is told True at the end, False when nobody reads."""

    __slots__ = ("_data", "_listener", "_then", "_writer")

    def __init__(self, writer: Any, data: bytes, then: Callable[[bool], None]) -> None:
        self._writer, self._data, self._then = writer, data, then
        self._listener = Listener(self._wrote)
        first = self._listener.write(writer, data)
        if first is not None:
            self._wrote(first)

    def let_go(self) -> None:
        """Write no more."""
        self._listener.let_go()

    def _wrote(self, result: tuple[int, int] | None) -> None:
        while result is not None:
            code, count = result
            self._data = self._data[count:]
            if not self._data or code == DROPPED:
                self._then(not self._data)
                return
            result = self._listener.write(self._writer, self._data)


async def within(work: Coroutine[Any, Any, T], limit_ms: float) -> T:
    """Await work for at most so long.

    Raises:
        TimeoutError: when the limit came first; what the work waited for is let go of.
    """
    working, rung = asyncio.ensure_future(work), new_future()
    alarm = Alarm(limit_ms, lambda: rung.set_result(None))
    await asyncio.wait((working, rung), return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        alarm.let_go()
        return working.result()
    state = tasks._future_state.get()
    waited = getattr(working, "_fut_waiter", None)
    for waitable, future in list(state.futures.items()):
        if future is waited:
            del state.futures[waitable]
            runtime.waitable_join(waitable, 0)
    raise TimeoutError


def new_future() -> asyncio.Future[Any]:
    """A future of the loop."""
    return asyncio.get_running_loop().create_future()


async def write_whole(writer: Any, data: bytes) -> None:
    """Write everything, then drop the writer; nobody reading is no failure."""
    with writer:
        await writer.write_all(data)
