"""Delay on two ways, user to path and path to GPU: by the kernel, by a router, or by a proxy.

    netem   namespaces joined by veth pairs, delayed by the kernel's netem
    router  namespaces joined by TUN devices, delayed by `router`, for kernels without netem
    proxy   one namespace; a TCP proxy delays what is sent (tests/fakes/link.py)

With the first two the path runs in this process's own namespace, which is one that the recipe made
for itself, so that nothing of the machine's network is touched and nothing is left behind.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Protocol, Self

from fakes.link import LinkThread
from nearfar.ports import free_port

Mode = Literal["netem", "router", "proxy"]
TESTS = Path(__file__).parents[1]
WAYS = {"u": ("10.213.1.1", "10.213.1.2"), "g": ("10.213.2.1", "10.213.2.2")}
TOLD = {
    "netem": "real network delay: namespaces and the kernel's netem",
    "router": "real network delay: namespaces, and a router in user space in netem's place",
    "proxy": "no real network: a TCP proxy delays what is sent (no root, or no namespaces here)",
}


class Links(Protocol):
    """The two ways, as the parts of a placement meet them."""

    mode: Mode

    def set(self, user_ms: float, gpu_ms: float) -> None:
        """Make a round trip on each way so long."""
        ...

    def path_listens(self) -> str:
        """The address that the path listens at."""
        ...

    def user_asks(self, path_port: int) -> tuple[str, int]:
        """Where the user finds the path that listens at this port."""
        ...

    def gpu_url(self) -> str:
        """Where the path finds the model server."""
        ...

    def gpu_listens(self) -> tuple[str, int]:
        """Where the model server listens."""
        ...

    def at_user(self, argv: Sequence[str]) -> list[str]:
        """A command as it runs at the user's place."""
        ...

    def at_gpu(self, argv: Sequence[str]) -> list[str]:
        """A command as it runs at the GPU's place."""
        ...


class Proxy:
    """Delay put in by TCP proxies on this machine."""

    mode: Mode = "proxy"

    def __init__(self) -> None:
        self._exits, self._ms = ExitStack(), (0.0, 0.0)
        self._gpu_port = free_port()
        self._gpu = LinkThread("127.0.0.1", self._gpu_port)
        self._users: dict[int, LinkThread] = {}

    def __enter__(self) -> Self:
        self._exits.enter_context(self._gpu)
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def set(self, user_ms: float, gpu_ms: float) -> None:
        self._ms = (user_ms, gpu_ms)
        self._gpu.set_delay(gpu_ms / 2, gpu_ms / 2)
        for link in self._users.values():
            link.set_delay(user_ms / 2, user_ms / 2)

    def path_listens(self) -> str:
        return "127.0.0.1"

    def user_asks(self, path_port: int) -> tuple[str, int]:
        if path_port not in self._users:
            link = self._exits.enter_context(LinkThread("127.0.0.1", path_port))
            link.set_delay(self._ms[0] / 2, self._ms[0] / 2)
            self._users[path_port] = link
        return "127.0.0.1", self._users[path_port].port

    def gpu_url(self) -> str:
        return self._gpu.url

    def gpu_listens(self) -> tuple[str, int]:
        return "127.0.0.1", self._gpu_port

    def at_user(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def at_gpu(self, argv: Sequence[str]) -> list[str]:
        return list(argv)


class Spaces:
    """Namespaces of their own for user and GPU; to be made in a namespace that is the path's."""

    gpu_port = 8000

    def __init__(self) -> None:
        self._exits = ExitStack()
        self._holders: dict[str, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            run("ip", "link", "set", "lo", "up")
            for name in WAYS:
                self._holders[name] = self._hold(exits)
            self.join(exits)
            for name, (near, far) in WAYS.items():
                self._address(name, near, far)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def join(self, exits: ExitStack) -> None:
        """Make a device NAMEa here and NAMEb in each namespace."""
        raise NotImplementedError

    def path_listens(self) -> str:
        return WAYS["u"][0]

    def user_asks(self, path_port: int) -> tuple[str, int]:
        return WAYS["u"][0], path_port

    def gpu_url(self) -> str:
        return f"http://{WAYS['g'][1]}:{self.gpu_port}"

    def gpu_listens(self) -> tuple[str, int]:
        return WAYS["g"][1], self.gpu_port

    def at_user(self, argv: Sequence[str]) -> list[str]:
        return self.inside("u", argv)

    def at_gpu(self, argv: Sequence[str]) -> list[str]:
        return self.inside("g", argv)

    def inside(self, name: str, argv: Sequence[str]) -> list[str]:
        """A command in a namespace; it lives as long as its holder."""
        return ["nsenter", "-t", str(self._holders[name]), "-n", *argv]

    def holder(self, name: str) -> str:
        """The process that holds a namespace."""
        return str(self._holders[name])

    def _hold(self, exits: ExitStack) -> int:
        """A process in a namespace of its own, which says when it is in it."""
        argv = ["unshare", "--net", "sh", "-c", "echo in; exec sleep infinity"]
        held = exits.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
        exits.callback(held.kill)
        assert held.stdout is not None
        if held.stdout.readline() != b"in\n":
            raise OSError("no network namespace can be made here")
        return held.pid

    def _address(self, name: str, near: str, far: str) -> None:
        run("ip", "addr", "add", f"{near}/30", "dev", f"{name}a")
        run("ip", "link", "set", f"{name}a", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{far}/30", "dev", f"{name}b"),
            ("link", "set", f"{name}b", "up"),
        ):
            run(*self.inside(name, ("ip", *words)))


class Netem(Spaces):
    """Delayed by the kernel, half of a round trip in each direction."""

    mode: Mode = "netem"

    def join(self, exits: ExitStack) -> None:
        for name in WAYS:
            peer = ("peer", "name", f"{name}b", "netns", self.holder(name))
            run("ip", "link", "add", f"{name}a", "type", "veth", *peer)

    def set(self, user_ms: float, gpu_ms: float) -> None:
        for name, ms in (("u", user_ms), ("g", gpu_ms)):
            delay = ("root", "netem", "delay", f"{ms / 2:g}ms", "limit", "100000")
            run("tc", "qdisc", "replace", "dev", f"{name}a", *delay)
            run(*self.inside(name, ("tc", "qdisc", "replace", "dev", f"{name}b", *delay)))


class Routed(Spaces):
    """Delayed by a router in user space, half of a round trip in each direction."""

    mode: Mode = "router"

    def join(self, exits: ExitStack) -> None:
        argv = [sys.executable, "-m", "distance.router", *WAYS]
        pipe = subprocess.PIPE
        self._router = exits.enter_context(
            subprocess.Popen(argv, cwd=TESTS, stdin=pipe, stdout=pipe, text=True)
        )
        exits.callback(self._router.kill)
        self._heard()
        for name in WAYS:
            run("ip", "link", "set", f"{name}b", "netns", self.holder(name))

    def set(self, user_ms: float, gpu_ms: float) -> None:
        assert self._router.stdin is not None
        for name, ms in (("u", user_ms), ("g", gpu_ms)):
            self._router.stdin.write(json.dumps({"pair": name, "one_way_ms": ms / 2}) + "\n")
            self._router.stdin.flush()
            self._heard()

    def _heard(self) -> None:
        assert self._router.stdout is not None
        if not self._router.stdout.readline():
            raise OSError("the router ended; is there a /dev/net/tun?")


KINDS: dict[Mode, type[Netem] | type[Routed] | type[Proxy]] = {
    "netem": Netem,
    "router": Routed,
    "proxy": Proxy,
}


def run(*argv: str) -> None:
    """Run one command of the system.

    Raises:
        OSError: with what it said.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


def possible() -> tuple[Mode, ...]:
    """What this machine permits, the best first. Asked outside of any namespace of ours."""
    found: list[Mode] = ["proxy"]
    if all(shutil.which(name) for name in ("unshare", "nsenter", "ip")) and _runs("true"):
        if Path("/dev/net/tun").exists() and _runs("ip tuntap add dev nf0 mode tun"):
            found.insert(0, "router")
        if shutil.which("tc") and _runs("tc qdisc add dev lo root netem delay 1ms"):
            found.insert(0, "netem")
    return tuple(found)


def _runs(script: str) -> bool:
    """Whether a command works in a network namespace that is thrown away."""
    argv = ["unshare", "--net", "sh", "-c", script]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
