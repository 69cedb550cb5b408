"""Measured starts in the style of a container: the same core in a plain Python server process."""

from __future__ import annotations

import time

from nearfar.placement.address import Address
from nearfar.placement.dial import Line
from nearfar.placement.processes import QUESTION, Bench, ask_first, ended, marks_told
from nearfar.placement.steps import Mark, Start, Step, started

_NO_RUNTIME = "there is no container here: a plain process stands for what runs in one"
OUTSIDE = (
    Step("machine or sandbox", None, _NO_RUNTIME),
    Step("image", None, _NO_RUNTIME),
)


def cold(bench: Bench, number: int) -> Start:
    """One new process, up to its first answer. Its own instants are on the same machine's clock."""
    began_s, began_ns = time.time(), time.monotonic_ns()
    child, address = bench.plain()
    with ended(child):
        told = marks_told(child, "listening")
        ask_first(address, bench.headers())
        answered_ns = time.monotonic_ns()
    names = ("interpreter", "imports", "settings", "listening")
    marks = [Mark(name, (told[name] - began_ns) / 1e6) for name in names]
    marks.append(Mark("first answer", (answered_ns - began_ns) / 1e6))
    note = "files may lie in the system's cache, and imports are compiled before"
    return started("container", "cold", number, began_s, marks, outside=OUTSIDE, note=note)


def warm(bench: Bench, address: Address, number: int) -> Start:
    """One request on a new connection to a process that has answered before."""
    began_s = time.time()
    with Line(address) as line:
        connected_ms = line.opening.connect_ms
        reply = line.ask(QUESTION, bench.headers())
    marks = [Mark("connect", connected_ms), Mark("answer", connected_ms + reply.head_ms)]
    return started("container", "warm", number, began_s, marks)
