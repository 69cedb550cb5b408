"""Measured starts of the edge: an instance, a host process, a host process that compiles first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearfar.placement.address import Address
from nearfar.placement.dial import Line
from nearfar.placement.processes import QUESTION, Bench, ask_first, ended, wait_listening
from nearfar.placement.steps import Kind, Mark, Start, Step, started

SANDBOX = Step(
    "fetch of the component to the place",
    None,
    "it lies on this machine; a platform's own distribution is not to be seen from here",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two running hosts: one makes an instance for every request, the other keeps it."""

    cold: Address
    warm: Address


@contextmanager
def pair(bench: Bench, component: Path) -> Iterator[Pair]:
    """Start both hosts and let both answer, so that only the instance is new afterwards."""
    with ExitStack() as exits:
        addresses = list[Address]()
        for reuse_count in (1, None):
            child, address = bench.wasmtime(component, reuse_count)
            exits.enter_context(ended(child))
            wait_listening(child, address)
            for _ in range(3):
                ask_first(address, bench.headers())
            addresses.append(address)
        yield Pair(*addresses)


def instance(bench: Bench, address: Address, kind: Kind, number: int) -> Start:
    """One request on a new connection to a host that has one instance for each, or keeps one.

    The host does not say when an instance is made: its time is within the answer's, for both kinds
    alike, and what a new one costs is the difference of the two.
    """
    began_s = time.time()
    with Line(address) as line:
        connected_ms = line.opening.connect_ms
        reply = line.ask(QUESTION, bench.headers())
    why = "the host does not say when an instance is made"
    made = [Mark("new instance", None, why)] if kind == "cold" else []
    marks = [
        Mark("connect", connected_ms),
        *made,
        Mark("answer", connected_ms + reply.head_ms),
    ]
    return started("edge-instance", kind, number, began_s, marks)


def host(bench: Bench, component: Path, number: int) -> Start:
    """One new wasmtime process, the component compiled before."""
    return _process(bench, component, "edge-host", number, precompiled=True)


def compiling(bench: Bench, component: Path, number: int) -> Start:
    """One new wasmtime process that compiles the component before it listens."""
    return _process(bench, component, "edge-compile", number, precompiled=False)


def _process(
    bench: Bench, component: Path, subject: str, number: int, *, precompiled: bool
) -> Start:
    doing = "process and load" if precompiled else "process and compile"
    began_s, began_ns = time.time(), time.monotonic_ns()
    child, address = bench.wasmtime(component, None, precompiled=precompiled)
    with ended(child):
        listening_ns = wait_listening(child, address)
        ask_first(address, bench.headers())
        answered_ns = time.monotonic_ns()
    marks = [
        Mark(doing, (listening_ns - began_ns) / 1e6),
        Mark("new instance", None, "the host does not say when an instance is made"),
        Mark("first answer", (answered_ns - began_ns) / 1e6),
    ]
    note = "files may lie in the system's cache"
    return started(subject, "cold", number, began_s, marks, outside=(SANDBOX,), note=note)
