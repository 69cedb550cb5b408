"""Runs an asynchronous fake as a process of its own: one JSON line, then until a signal."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

T = TypeVar("T")
Told = Callable[[T], Mapping[str, Any]]


def serve(fake: AbstractAsyncContextManager[T], ready: Told[T], ended: Told[T]) -> None:
    """Prints `ready` when the fake listens and `ended` after SIGINT or SIGTERM, a line each."""
    asyncio.run(_until_signal(fake, ready, ended))


async def _until_signal(
    fake: AbstractAsyncContextManager[T], ready: Told[T], ended: Told[T]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with fake as running:
        print(json.dumps(ready(running)), flush=True)
        await stop.wait()
        print(json.dumps(ended(running)), flush=True)
