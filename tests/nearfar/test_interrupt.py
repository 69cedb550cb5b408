"""Interrupts become KeyboardInterrupt, and wait where they would do harm."""

from __future__ import annotations

import os
import signal

import pytest

from nearfar.interrupt import stop_on_signals, undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), stop_on_signals():
        os.kill(os.getpid(), number)


def interrupted_in_a_block(reached: list[str]) -> None:
    with stop_on_signals():
        with undisturbed():
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("end of the block")
        reached.append("after the block")


def test_an_interrupt_waits_for_the_end_of_an_undisturbed_block() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_in_a_block(reached)
    assert ["end of the block"] == reached


def test_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals():
        assert before != signal.getsignal(signal.SIGTERM)
    assert before == signal.getsignal(signal.SIGTERM)
