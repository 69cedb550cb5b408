"""Runs an asynchronous fake in a thread of its own, for tests that are not asynchronous."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

T = TypeVar("T")


class Listens(Protocol):
    """A fake that has an address while it is open."""

    @property
    def url(self) -> str: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


L = TypeVar("L", bound=Listens)


class Background:
    """An event loop in a thread that holds one asynchronous context manager open."""

    def __init__(self, held: Listens) -> None:
        self._held = held
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake", daemon=True)

    def start(self) -> None:
        """Starts the thread and enters the context manager in it."""
        self._thread.start()
        self.run(self._held.__aenter__())

    def stop(self) -> None:
        """Leaves the context manager, ends the thread and closes its loop."""
        self.run(self._held.__aexit__(None, None, None))
        self.run(self._cancel_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the fake's loop and waits for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _cancel_rest(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


class InThread(Generic[L]):
    """A fake beside a test that is not asynchronous: open for as long as the context lasts."""

    def __init__(self, fake: L) -> None:
        self.fake = fake
        self._background = Background(fake)

    def __enter__(self) -> Self:
        self._background.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._background.stop()

    @property
    def url(self) -> str:
        """The fake's address, without a path."""
        return self.fake.url

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the fake in its loop and wait for its result."""
        return self._background.run(coroutine)
