"""Ctrl-C and its like: each becomes a KeyboardInterrupt, at a moment when it does no harm."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class _Waiting:
    """Signals belong to the whole process, and so does this."""

    held: bool = False
    came: bool = False


_waiting = _Waiting()


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into the KeyboardInterrupt that ctrl-C raises."""
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold back an interrupt until the end of the block."""
    _waiting.held = True
    try:
        yield
    finally:
        _waiting.held = False
        if _waiting.came:
            _waiting.came = False
            raise KeyboardInterrupt


def _interrupt(_number: int, _frame: object) -> None:
    if _waiting.held:
        _waiting.came = True
    else:
        raise KeyboardInterrupt
