"""Ports of the loopback address: which are free, which are taken."""

from __future__ import annotations

import socket

from nearfar.errors import BadInput, Missing


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_port(port: int) -> None:
    """Raise if something already listens on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError as error:
            raise BadInput(
                f"Port {port} needs more rights.", "choose --port above 1023."
            ) from error
        except OSError as error:
            raise Missing(
                f"Port {port} is taken by another program.",
                f"stop it, or choose another with --port {port + 1 if port < 65535 else port - 1}.",
            ) from error
