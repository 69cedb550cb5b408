"""A fake network path: a TCP proxy that puts distance, silence or a cut on connections.

    async with Link("127.0.0.1", 8000, up_ms=40, down_ms=40) as link: ...
    with LinkThread("127.0.0.1", 8000, up_ms=40, down_ms=40) as link: ...
    python -m tests.fakes.link --target 127.0.0.1:8000 --up-ms 40 --down-ms 40

Every byte is delayed by the same time in its direction; there is no bound on bandwidth. A
connection's first bytes wait one more round trip, as over a real path where the handshake
comes first (a proxy on this machine accepts at once).
"""

import argparse
import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from .background import InThread
from .process import serve

# asyncio's timers wake up to 1 ms late (epoll counts whole milliseconds): wake that much
# earlier and turn in the loop until the time has come.
_EARLY_S = 0.0015


@dataclass(slots=True)
class Traffic:
    """What went over one connection."""

    bytes_up: int = 0
    bytes_down: int = 0
    round_trips: int = 0  # turns from client-to-target to target-to-client
    asked: bool = False  # the last bytes came from the client

    def count(self, size: int, *, up: bool) -> None:
        """Counts bytes as they arrive at the link."""
        if up:
            self.bytes_up += size
        else:
            self.bytes_down += size
            self.round_trips += self.asked
        self.asked = up


class Link:
    """The proxy; delays may be changed while connections are open."""

    def __init__(
        self,
        target_host: str,
        target_port: int,
        *,
        up_ms: float = 0.0,
        down_ms: float = 0.0,
        handshake: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`up_ms` delays what the client sends, `down_ms` what the target sends."""
        self.target = (target_host, target_port)
        self.up_ms, self.down_ms, self.handshake = up_ms, down_ms, handshake
        self.host, self.port = host, port
        self.traffic: list[Traffic] = []  # one for every connection ever opened
        self._flowing = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The link's own address as an HTTP URL without a path."""
        return f"http://{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections were opened through the link."""
        return len(self.traffic)

    @property
    def round_trips(self) -> int:
        """Round trips over all connections; handshakes are not among them."""
        return sum(each.round_trips for each in self.traffic)

    async def swallow(self) -> None:
        """Takes every byte from now on and passes none; connections stay open."""
        self._flowing.clear()

    async def cut(self) -> None:
        """Resets every open connection on both sides; new ones are accepted."""
        for writer in list(self._writers):
            _reset(writer)
        await asyncio.sleep(0)

    async def refuse(self) -> None:
        """Closes the port, so that new connections are refused, and cuts the open ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def resume(self) -> None:
        """Passes bytes again and listens again at the same port; swallowed bytes stay lost."""
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self.host, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.resume()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        with contextlib.suppress(asyncio.CancelledError):  # only __aexit__ cancels
            await self._join(reader, writer)
        self._writers.discard(writer)
        writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects to the target and pumps both ways until both directions have ended."""
        traffic, opened = Traffic(), time.monotonic()
        self.traffic.append(traffic)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            _reset(writer)
            return
        self._writers.add(far_writer)
        up = _Pump(self, traffic, opened, reader, writer, far_writer, up=True)
        down = _Pump(self, traffic, opened, far_reader, far_writer, writer, up=False)
        try:
            await asyncio.gather(up.receive(), up.send(), down.receive(), down.send())
        finally:
            self._writers.discard(far_writer)
            far_writer.close()


class _Pump:
    """One direction of one connection."""

    def __init__(
        self,
        link: Link,
        traffic: Traffic,
        opened: float,
        source: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        sink: asyncio.StreamWriter,
        *,
        up: bool,
    ) -> None:
        self._link, self._traffic, self._opened, self._up = link, traffic, opened, up
        self._source, self._back, self._sink = source, back, sink
        # (due time, bytes); b"" is the end of the stream and None a reset
        self._queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    async def receive(self) -> None:
        """Takes bytes as they come and notes when each is due at the other side."""
        data: bytes | None = b"-"
        while data:
            try:
                data = await self._source.read(65536)
            except OSError:
                data = None
            now = time.monotonic()
            if data:
                self._traffic.count(len(data), up=self._up)
            if self._link._flowing.is_set() or not data:
                self._queue.put_nowait((self._due(now), data))

    async def send(self) -> None:
        """Passes on what is due, in order; an end or a reset is passed on as one."""
        while True:
            due, data = await self._queue.get()
            await _sleep_until(due)
            if not self._link._flowing.is_set():
                if data:
                    continue
                await self._link._flowing.wait()
            try:
                if data is None:
                    _reset(self._sink)
                    return
                if not data:
                    self._sink.write_eof()
                    return
                self._sink.write(data)
                await self._sink.drain()
            except OSError:
                # The sink is gone; its reset reaches the source after the way back.
                back_ms = self._link.down_ms if self._up else self._link.up_ms
                await _sleep_until(time.monotonic() + back_ms / 1000)
                _reset(self._back)
                return

    def _due(self, now: float) -> float:
        link = self._link
        if self._up and link.handshake:
            now = max(now, self._opened + (link.up_ms + link.down_ms) / 1000)
        return now + (link.up_ms if self._up else link.down_ms) / 1000


async def _sleep_until(due: float) -> None:
    left = due - time.monotonic() - _EARLY_S
    if left > 0:
        await asyncio.sleep(left)
    while time.monotonic() < due:  # noqa: ASYNC110 - no event tells the time this exactly
        await asyncio.sleep(0)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes with RST: lingering for zero seconds throws away what is unsent."""
    peer: socket.socket | None = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class LinkThread(InThread[Link]):
    """The same link in a thread, for tests that are not asynchronous."""

    def __init__(
        self, target_host: str, target_port: int, *, up_ms: float = 0.0, down_ms: float = 0.0
    ) -> None:
        super().__init__(Link(target_host, target_port, up_ms=up_ms, down_ms=down_ms))

    @property
    def port(self) -> int:
        """The link's own port."""
        return self.fake.port

    @property
    def round_trips(self) -> int:
        """See `Link.round_trips`."""
        return self.fake.round_trips

    @property
    def connections(self) -> int:
        """See `Link.connections`."""
        return self.fake.connections

    def set_delay(self, up_ms: float, down_ms: float) -> None:
        """Changes both delays for what is sent from now on."""
        self.fake.up_ms, self.fake.down_ms = up_ms, down_ms

    def swallow(self) -> None:
        """See `Link.swallow`."""
        self.run(self.fake.swallow())

    def cut(self) -> None:
        """See `Link.cut`."""
        self.run(self.fake.cut())

    def refuse(self) -> None:
        """See `Link.refuse`."""
        self.run(self.fake.refuse())

    def resume(self) -> None:
        """See `Link.resume`."""
        self.run(self.fake.resume())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the link as a process; it prints its address first and its counts at the end."""
    parser = argparse.ArgumentParser(prog="link", description="A fake network path.")
    parser.add_argument("--target", required=True, metavar="HOST:PORT")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--up-ms", type=float, default=0.0)
    parser.add_argument("--down-ms", type=float, default=0.0)
    given = parser.parse_args(arguments)
    host, _, port = given.target.rpartition(":")
    serve(
        Link(
            host,
            int(port),
            up_ms=given.up_ms,
            down_ms=given.down_ms,
            host=given.host,
            port=given.port,
        ),
        lambda link: {"url": link.url, "port": link.port, "pid": os.getpid()},
        lambda link: {"connections": link.connections, "round_trips": link.round_trips},
    )


if __name__ == "__main__":
    main()
