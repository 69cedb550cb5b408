"""Sockets port over wasi:sockets 0.3: where a name leads, and a TCP connection to it."""

from __future__ import annotations

from typing import Any

from componentize_py_types import Err
from spin_sdk.wit.imports import wasi_sockets_ip_name_lookup_0_3_0 as names
from spin_sdk.wit.imports import wasi_sockets_types_0_3_0 as sockets

from ..errors import UpstreamTimeout, UpstreamUnreachable
from .waits import within


class WasiSockets:
    """Connections that are opened to see how long that takes."""

    async def look_up(self, host: str, timeout_ms: int) -> Any:
        try:
            return await within(address_of(host), timeout_ms)
        except TimeoutError as error:
            raise UpstreamTimeout("The model server's name was not found in time.") from error
        except Err as error:
            raise UpstreamUnreachable("The model server's name is not known.") from error

    async def connect(self, address: Any, port: int, timeout_ms: int) -> None:
        try:
            socket = await within(connected(address, port), timeout_ms)
        except TimeoutError as error:
            raise UpstreamTimeout("The model server took no connection in time.") from error
        except Err as error:
            raise UpstreamUnreachable("The model server takes no connection.") from error
        socket.__exit__(None, None, None)


async def address_of(host: str) -> Any:
    """The address of a host: the one that is written, or the first one that its name has."""
    return literal(host) or (await names.resolve_addresses(host))[0]


async def connected(address: Any, port: int) -> sockets.TcpSocket:
    """A TCP connection to an address."""
    if isinstance(address, sockets.IpAddress_Ipv4):
        family = sockets.IpAddressFamily.IPV4
        remote: Any = sockets.IpSocketAddress_Ipv4(sockets.Ipv4SocketAddress(port, address.value))
    else:
        family = sockets.IpAddressFamily.IPV6
        remote = sockets.IpSocketAddress_Ipv6(sockets.Ipv6SocketAddress(port, 0, address.value, 0))
    socket = sockets.TcpSocket.create(family)
    await socket.connect(remote)
    return socket


def literal(host: str) -> sockets.IpAddress_Ipv4 | None:
    """An IPv4 address written as one, which nobody has to be asked for."""
    parts = host.split(".")
    if len(parts) != 4 or not all(
        part.isascii() and part.isdigit() and int(part) < 256 for part in parts
    ):
        return None
    first, second, third, fourth = map(int, parts)
    return sockets.IpAddress_Ipv4((first, second, third, fourth))
