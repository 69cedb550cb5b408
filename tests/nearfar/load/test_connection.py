"""The client's connection reads any legal HTTP/1.1 answer, however it is cut, over TLS too."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Self

import pytest

from fakes.background import InThread
from fakes.sample import stream
from nearfar.errors import Missing
from nearfar.exchange import Edge
from nearfar.load.client import Client, Manner, Shot
from nearfar.runs import Sample

from .asking import PROMPT, measured, plan

SHOT = Shot(i=0, prompt=PROMPT, body=b"{}")
BODY = stream()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_1\r\n"


def chunked(data: bytes, size: int = 40) -> bytes:
    pieces = [data[n : n + size] for n in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


LENGTH = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(BODY)
CLOSED = HEAD + b"connection: close\r\n\r\n" + BODY
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


class Raw:
    """A fake: a server that sends fixed bytes to every request, in pieces, and may then close."""

    def __init__(self, reply: bytes, cut: int = 0, *, close: bool = False) -> None:
        self.pieces = [reply[:cut], reply[cut:]] if cut else [reply]
        self.close = close
        self.tls: ssl.SSLContext | None = None
        self.port = 0
        self.heads: list[bytes] = []

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n{}"))
                for piece in self.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def asked(raw: Raw, times: int = 1) -> list[Sample]:
    async with raw:
        edge = Edge(f"http://127.0.0.1:{raw.port}", "key")
        async with Client(edge, Manner(timeout_s=5), 0.0) as client:
            return [await client.ask(SHOT) for _ in range(times)]


@pytest.mark.parametrize("reply", [LENGTH, CHUNKED, INTERIM + CHUNKED])
async def test_a_framed_answer_keeps_its_connection(reply: bytes) -> None:
    first, second = await asked(Raw(reply), 2)
    assert ("ok", "ok") == (first.outcome, second.outcome)
    assert ("new", "reused") == (first.connection, second.connection)
    assert "req_1" == first.request_id


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    first, second = await asked(Raw(CLOSED, close=True), 2)
    assert ("ok", "ok") == (first.outcome, second.outcome)
    assert ("new", "new") == (first.connection, second.connection)


@pytest.mark.parametrize("reply", [LENGTH, CHUNKED, INTERIM + CHUNKED])
async def test_an_answer_may_be_cut_at_any_byte(reply: bytes) -> None:
    for cut in range(1, len(reply), 3):
        (found,) = await asked(Raw(reply, cut))
        assert ("ok", 200) == (found.outcome, found.status)


@pytest.mark.parametrize("reply", [LENGTH, CHUNKED])
async def test_an_answer_that_ends_before_its_end_is_not_whole(reply: bytes) -> None:
    for end in range(len(reply) - 1, len(reply) - 120, -7):
        (found,) = await asked(Raw(reply[:end], close=True))
        assert ("cut", "connection_closed") == (found.outcome, found.error and found.error.code)


async def test_what_is_not_http_is_told() -> None:
    (found,) = await asked(Raw(b"SSH-2.0-OpenSSH\r\n", close=True))
    assert ("failed", "not_http") == (found.outcome, found.error and found.error.code)


async def test_what_comes_unasked_after_an_answer_ends_the_connection() -> None:
    first, second = await asked(Raw(LENGTH + b"more"), 2)
    assert "ok" == first.outcome
    assert ("ok", "new") == (second.outcome, second.connection)


async def test_the_head_names_host_key_and_length() -> None:
    raw = Raw(LENGTH)
    await asked(raw)
    (head,) = raw.heads
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    for line in (
        f"host: 127.0.0.1:{raw.port}",
        "authorization: Bearer key",
        "content-length: 2",
        "x-nearfar-trace: 1",
    ):
        assert line.encode() in head.split(b"\r\n")


@pytest.fixture
def secure(certificate: Path) -> Raw:
    raw = Raw(CHUNKED)
    raw.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    raw.tls.load_cert_chain(certificate)
    return raw


async def test_a_load_goes_over_tls(
    secure: Raw, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: usual(cafile=str(certificate)))
    async with secure:
        edge = Edge(f"https://localhost:{secure.port}", "key")
        async with Client(edge, Manner(), 0.0) as client:
            found = [await client.ask(SHOT) for _ in range(2)]
    assert [("ok", "new"), ("ok", "reused")] == [(s.outcome, s.connection) for s in found]


def test_a_certificate_that_nobody_vouches_for_is_told(secure: Raw, tmp_path: Path) -> None:
    with InThread(secure), pytest.raises(Missing, match=r"TLS with .* failed \(SSLCert"):
        measured(f"https://localhost:{secure.port}", tmp_path, plan())
