"""A router in user space: packets of one device come out of another after a delay.

    python -m tests.distance.router PAIR PAIR …      (as root, in the network namespace it serves)

Each pair makes two TUN devices, PAIRa and PAIRb; either may be moved to another namespace
afterwards. It prints `{"ready": true}`, and then takes lines like `{"pair": "u", "one_way_ms": 5}`
on its standard input, whose end ends it. The kernel's own TCP runs over it, handshakes, windows and
all; the delay is the router's and not the kernel's, and there is no loss and no bound on bandwidth.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import json
import os
import select
import struct
import sys
import time
from dataclasses import dataclass, field

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_MOST_BYTES = 65_536
# select wakes some tens of microseconds late; the last stretch is turned through.
_EARLY_S = 0.0002
Due = tuple[float, int, int, bytes]


def device(name: str) -> int:
    """Make a TUN device; packets to and from it pass through the file that is returned."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return handle


@dataclass(slots=True)
class Router:
    """`other` maps each device to the one behind it, `delay_s` each to its way's delay."""

    other: dict[int, int] = field(default_factory=dict)
    delay_s: dict[int, float] = field(default_factory=dict)
    pairs: dict[str, tuple[int, int]] = field(default_factory=dict)
    queue: list[Due] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, name: str) -> None:
        """Make one pair of devices, without a delay."""
        near, far = device(f"{name}a"), device(f"{name}b")
        self.pairs[name] = (near, far)
        self.other |= {near: far, far: near}
        self.delay_s |= {near: 0.0, far: 0.0}

    def set(self, name: str, one_way_ms: float) -> None:
        """Delay both directions from now on."""
        for each in self.pairs[name]:
            self.delay_s[each] = one_way_ms / 1000

    def run(self) -> None:
        """Route until the standard input ends."""
        told = b""
        while True:
            ready, _, _ = select.select([0, *self.other], [], [], self._wait_s())
            for handle in ready:
                if handle:
                    self._take(handle)
                    continue
                data = os.read(0, _MOST_BYTES)
                if not data:
                    return
                *lines, told = (told + data).split(b"\n")
                for line in lines:
                    asked = json.loads(line)
                    self.set(asked["pair"], asked["one_way_ms"])
                    print(json.dumps(asked), flush=True)
            self._send()

    def _wait_s(self) -> float | None:
        if not self.queue:
            return None
        return max(0.0, self.queue[0][0] - time.monotonic() - _EARLY_S)

    def _take(self, handle: int) -> None:
        while True:
            try:
                packet = os.read(handle, _MOST_BYTES)
            except BlockingIOError:
                return
            due = time.monotonic() + self.delay_s[handle]
            heapq.heappush(self.queue, (due, next(self._order), self.other[handle], packet))

    def _send(self) -> None:
        while self.queue and self.queue[0][0] <= time.monotonic():
            _, _, handle, packet = heapq.heappop(self.queue)
            try:
                os.write(handle, packet)
            except OSError:
                continue  # the device is down, or full: a packet is lost, as on any way


def main() -> None:
    """Make the pairs that are named, and route."""
    router = Router()
    for name in sys.argv[1:]:
        router.add(name)
    print(json.dumps({"ready": True}), flush=True)
    router.run()


if __name__ == "__main__":
    main()
