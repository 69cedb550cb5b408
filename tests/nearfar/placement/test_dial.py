"""One exchange taken apart, against real servers, with and without TLS."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes.link import LinkThread
from nearfar.errors import BadInput, Missing
from nearfar.placement.address import Address
from nearfar.placement.dial import Line
from nearfar.ports import free_port

TRIP_MS = 60.0


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every GET with `ok`, and closes for `/close`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        if self.path == "/close":
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Says nothing when a client goes away in the middle of a handshake."""

    def handle_error(self, request: Any, client_address: Any) -> None: ...


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on a free port."""
    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a.test", Address(False, "a.test", 80, "")),
        ("https://a.test/", Address(True, "a.test", 443, "")),
        ("https://a.test:8443/v1", Address(True, "a.test", 8443, "")),
        ("http://[::1]:3000/x/v1/", Address(False, "::1", 3000, "/x")),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert address == Address.of(url)


@pytest.mark.parametrize("url", ["", "a.test", "ftp://a.test", "http://", "http://a:x", "http://["])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(BadInput, match="is not a web address"):
        Address.of(url)


@pytest.mark.parametrize(
    ("host", "literal", "own"),
    [("127.0.0.1", True, True), ("::1", True, True), ("localhost", False, True),
     ("192.0.2.1", True, False), ("a.test", False, False)],
)  # fmt: skip
def test_it_is_known_whether_a_name_is_looked_up_and_who_can_reach_it(
    host: str, literal: bool, own: bool
) -> None:
    address = Address(False, host, 80, "")
    assert (literal, own) == (address.is_literal, address.is_of_this_machine)


def test_an_address_has_no_look_up_and_plain_http_no_tls() -> None:
    with serving() as port, Line(Address.of(f"http://127.0.0.1:{port}")) as line:
        reply = line.ask("/")
        assert (None, None) == (line.opening.dns_ms, line.opening.tls_ms)
        assert (200, b"ok") == (reply.status, reply.body)
        assert 0 < reply.head_ms <= reply.end_ms


def test_a_name_is_looked_up() -> None:
    with serving() as port, Line(Address.of(f"http://localhost:{port}")) as line:
        assert line.opening.dns_ms is not None


def test_each_part_sees_the_distance_that_it_crosses() -> None:
    """The link takes connections at once and lets the first bytes wait for a handshake's time."""
    half = TRIP_MS / 2
    with serving() as port, LinkThread("127.0.0.1", port, up_ms=half, down_ms=half) as far:
        with Line(Address.of(far.url)) as line:
            assert line.opening.connect_ms < TRIP_MS
            first, second = line.ask("/"), line.ask("/")
        assert 1 == far.connections
    assert first.head_ms >= 2 * TRIP_MS > second.head_ms >= TRIP_MS


def test_a_connection_that_the_server_closed_is_not_opened_again_behind_our_back() -> None:
    with serving() as port, Line(Address.of(f"http://127.0.0.1:{port}")) as line:
        line.ask("/")
        is_open = line.still_open
        line.ask("/close")
        assert (True, False) == (is_open, line.still_open)
        with pytest.raises(Missing, match="failed"):
            line.ask("/")


def test_tls_has_a_time_of_its_own(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    usual = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: usual(cafile=str(certificate)))
    with serving(tls) as port, Line(Address.of(f"https://localhost:{port}")) as line:
        assert line.opening.tls_ms is not None
        assert line.opening.tls_ms > 0
        assert 200 == line.ask("/").status


def test_a_certificate_that_nobody_vouches_for_is_told(certificate: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with serving(tls) as port, pytest.raises(Missing, match=r"TLS with .* failed"):
        Line(Address.of(f"https://localhost:{port}"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"http://127.0.0.1:{free_port()}", "Nothing answers at"),
        ("http://no-such-host.invalid", "The name no-such-host.invalid is not known"),
    ],
)
def test_a_server_that_is_not_there_is_told(url: str, said: str) -> None:
    with pytest.raises(Missing, match=said):
        Line(Address.of(url))
