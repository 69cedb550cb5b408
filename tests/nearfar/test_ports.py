"""Ports of the loopback address."""

from __future__ import annotations

import socket

import pytest

from nearfar.errors import Missing
from nearfar.ports import check_port, free_port


def test_a_free_port_is_free() -> None:
    check_port(free_port())


def test_a_taken_port_is_told_with_another_to_try() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Missing, match=f"Port {port} is taken") as caught:
            check_port(port)
    assert f"--port {port + 1}." in caught.value.next_step
