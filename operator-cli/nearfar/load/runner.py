"""Sends requests as an open or a closed loop, and gives each sample to a sink as it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from nearfar.load.client import Client, Shot
from nearfar.runs.sample import Sample

Sink = Callable[[Sample], None]

# So many requests in a row to which nobody answered: nobody is there.
GIVE_UP_AFTER = 50
_TIMER_S = 0.0005


@dataclass(slots=True)
class Stop:
    """Says that a load has to end early, and why; what is in flight is then ended too."""

    _event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    _unanswered: int = 0

    @property
    def is_set(self) -> bool:
        """Whether the load has to end."""
        return self._event.is_set()

    def set(self, reason: str) -> None:
        """End the load; the first reason stands."""
        if not self.is_set:
            self.reason = reason
            self._event.set()

    def saw(self, sample: Sample) -> None:
        """End the load when nobody answers at all."""
        gone = sample.outcome == "failed" and sample.status is None
        self._unanswered = self._unanswered + 1 if gone else 0
        if self._unanswered >= GIVE_UP_AFTER:
            self.set("dead")

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until the load has to end, but no longer than so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


async def open_loop(client: Client, shots: Iterable[Shot], sink: Sink, stop: Stop) -> None:
    """Send each request when it is due, whatever is still in flight; wait for the last answer."""
    flying: set[asyncio.Task[None]] = set()
    with _undisturbed_memory():
        for shot in shots:
            assert shot.due_s is not None  # noqa: S101 - an open loop's requests are due
            await _until(shot.due_s, client, stop)
            if stop.is_set:
                break
            task = asyncio.create_task(_one(client, shot, sink, stop))
            flying.add(task)
            task.add_done_callback(flying.discard)
        await _landed(flying, stop)


async def closed_loop(
    client: Client, shots: Iterable[Shot], concurrency: int, sink: Sink, stop: Stop
) -> None:
    """Keep so many requests in flight until there are no more; each worker takes the next one."""
    waiting = iter(shots)

    async def work() -> None:
        for shot in waiting:
            if stop.is_set:
                return
            await _one(client, shot, sink, stop)

    with _undisturbed_memory():
        workers = {asyncio.create_task(work()) for _ in range(concurrency)}
        await _landed(workers, stop)


async def _until(due_s: float, client: Client, stop: Stop) -> None:
    """Wait until a request is due; takes a turn of the loop even when late, to read answers."""
    await asyncio.sleep(0)
    while (left_s := due_s - client.now_s()) > 0 and not stop.is_set:
        # The loop's timers count whole milliseconds; what is left is waited for turn by turn.
        if left_s > _TIMER_S:
            await stop.wait(left_s - _TIMER_S)
        else:
            await asyncio.sleep(0)


async def _one(client: Client, shot: Shot, sink: Sink, stop: Stop) -> None:
    sample = await client.ask(shot)
    sink(sample)
    stop.saw(sample)


async def _landed(flying: set[asyncio.Task[None]], stop: Stop) -> None:
    """Wait for what is in flight; a stop ends it, and each request is then a sample `aborted`."""
    stopped = asyncio.create_task(stop.wait())
    try:
        while flying and not stop.is_set:
            done, _ = await asyncio.wait({*flying, stopped}, return_when=asyncio.FIRST_COMPLETED)
            flying.difference_update(done)
            _raise_first(done - {stopped})
        while flying:
            for task in flying:
                task.cancel()
            done, flying = await asyncio.wait(flying)
            _raise_first(done)
    finally:
        stopped.cancel()


def _raise_first(done: Iterable[asyncio.Task[None]]) -> None:
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


@contextlib.contextmanager
def _undisturbed_memory() -> Iterator[None]:
    """Keep the collector from walking what is there already: its pauses would be measured."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
