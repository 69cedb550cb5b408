"""One HTTP exchange taken apart: look-up of the name, connecting, TLS, the response's head."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from nearfar.errors import Missing
from nearfar.placement.address import Address

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Opening:
    """How long a new connection took. `dns_ms` and `tls_ms` are None where there was none."""

    dns_ms: float | None
    connect_ms: float
    tls_ms: float | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One exchange on an open connection: to the response's head and to its end."""

    status: int
    head_ms: float
    end_ms: float
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    body: bytes = field(repr=False, default=b"")

    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Stream:
    """The head of an answer; `pieces` gives its bytes as they come, with when, b"" at its end."""

    status: int
    head_ms: float
    headers: Mapping[str, str] = field(repr=False)
    pieces: Callable[[], tuple[bytes, float]] = field(repr=False)


class Line:
    """One connection; it is never opened again behind our back. Use it in a `with`."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S) -> None:
        """Open it, and note how long each part took.

        Raises:
            Missing: the name is not known, nobody listens, or TLS fails.
        """
        self.address = address
        dns_ms, found = _looked_up(address)
        began = time.perf_counter()
        plain = _connected(address, found, timeout_s)
        connect_ms, tls_ms = _since(began), None
        if address.secure:
            began = time.perf_counter()
            plain = _wrapped(address, plain)
            tls_ms = _since(began)
        self.opening = Opening(dns_ms, connect_ms, tls_ms)
        self._http = http.client.HTTPConnection(address.host, address.port)
        self._http.auto_open = 0
        self._http.sock = plain

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes | None = None,
    ) -> Reply:
        """Ask and read the whole answer.

        Raises:
            Missing: the connection broke or nothing came in time.
        """
        began = time.perf_counter()
        with self._told():
            response = self._asked(method, path, headers, body)
            head_ms = _since(began)
            content = response.read()
        return Reply(response.status, head_ms, _since(began), _headers(response), content)

    def stream(self, path: str, headers: Mapping[str, str], body: bytes) -> Stream:
        """Post and return with the answer's head.

        Raises:
            Missing: as `ask` does, while the pieces are read too.
        """
        began = time.perf_counter()
        with self._told():
            response = self._asked("POST", path, headers, body)
        head_ms = _since(began)

        def piece() -> tuple[bytes, float]:
            with self._told():
                return response.read1(65_536), _since(began)

        return Stream(response.status, head_ms, _headers(response), piece)

    def _asked(
        self, method: str, path: str, headers: Mapping[str, str] | None, body: bytes | None
    ) -> http.client.HTTPResponse:
        where = self.address.base + path
        self._http.request(method, where, body=body, headers=dict(headers or {}))
        return self._http.getresponse()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            raise Missing(
                f"The exchange with {self.address.shown} failed ({type(error).__name__}).",
                "look at the server's log.",
            ) from error

    @property
    def still_open(self) -> bool:
        """Whether the server left the connection open for another exchange."""
        return self._http.sock is not None

    def close(self) -> None:
        """Close it."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _looked_up(address: Address) -> tuple[float | None, list[Any]]:
    began = time.perf_counter()
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Missing(
            f"The name {address.host} is not known.", "check the address, and this machine's DNS."
        ) from error
    return (None if address.is_literal else _since(began)), found


def _connected(address: Address, found: list[Any], timeout_s: float) -> socket.socket:
    """A connection to the first address that takes one; those before it are within its time."""
    failure: OSError | None = None
    for family, kind, protocol, _, at in found:
        made = socket.socket(family, kind, protocol)
        made.settimeout(timeout_s)
        try:
            made.connect(at)
        except OSError as error:
            made.close()
            failure = error
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    reason = (failure.strerror or type(failure).__name__) if failure else "no address"
    raise Missing(
        f"Nothing answers at {address.shown} ({reason}).", "start it, or check its address."
    ) from failure


def _wrapped(address: Address, plain: socket.socket) -> socket.socket:
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=address.host)
    except OSError as error:
        plain.close()
        raise Missing(
            f"TLS with {address.shown} failed ({type(error).__name__}).",
            "check its certificate and its port.",
        ) from error


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
