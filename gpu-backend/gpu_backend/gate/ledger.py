"""Settlements on their way to Redis: kept until Redis took them, in the order they came."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from gpu_backend.gate.line import PAUSE_S, Line, RedisDown
from gpu_backend.gate.wire import Command

# About 20 MB of settlements, which is minutes of a busy engine without Redis.
MOST_PENDING = 20_000
_BATCH = 256

log = logging.getLogger("gpu_backend.gate")


class Ledger:
    """Sends settlements through a line, again and again while Redis is away."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pending: deque[tuple[Command, asyncio.Future[None]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self.lost = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, command: Command) -> asyncio.Future[None]:
        """Send a settlement soon; the future is done when Redis has taken it."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((command, taken))
        if len(self._pending) > MOST_PENDING:
            self._pending.popleft()[1].cancel()
            self.lost += 1
            if self.lost == 1:
                log.error("Redis has been away for so long that usage is lost.")
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return taken

    async def close(self, within_s: float) -> None:
        """Send what is left, for a bounded time; what Redis did not take then is lost."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=within_s)
            self._sender.cancel()
            await asyncio.wait([self._sender])
        if self._pending:
            log.error("%d settlements were lost: Redis did not take them.", len(self._pending))

    async def _send_all(self) -> None:
        while self._pending:
            if not await self._send_some():
                await asyncio.sleep(PAUSE_S)

    async def _send_some(self) -> bool:
        """Send one batch; what failed stays in front."""
        batch = [self._pending.popleft() for _ in range(min(_BATCH, len(self._pending)))]
        try:
            replies = await asyncio.gather(
                *(self._line.ask(command) for command, _ in batch), return_exceptions=True
            )
        except asyncio.CancelledError:
            self._pending.extendleft(reversed(batch))
            raise
        failed = []
        for entry, reply in zip(batch, replies, strict=True):
            if isinstance(reply, RedisDown):
                failed.append(entry)
            elif not entry[1].done():
                entry[1].set_result(None)
        self._pending.extendleft(reversed(failed))
        return not failed
